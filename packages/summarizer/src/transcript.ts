import {
  type ContextMessage,
  contentBlocks,
  fieldText,
  isFailedAnswer,
  type ToolCallBlock,
} from "@espalier/session-tree";

/**
 * Renders messages for a model, as escaped data between tags:
 *
 * ```text
 * <transcript>
 * <message role="user">
 * Fix the test.
 * </message>
 * <message role="assistant">
 * I read it first.
 * <call>read(path="a.test.ts")</call>
 * </message>
 * <message role="tool-result" tool="read">
 * …
 * </message>
 * </transcript>
 * ```
 *
 * All text of a message is escaped ({@link escapeText}), so that it can neither close nor open a tag. Results, output
 * of commands and arguments are cut to `toolResultLimit` characters (2,000); thinking, system prompts, and commands
 * excluded from the context are left out; media are replaced by a word (`[image]`); failed and aborted answers have an
 * attribute (`failed="aborted"`).
 */
export function renderTranscript(
  messages: readonly ContextMessage[],
  limits: Partial<RenderLimits> = {},
): string {
  const all = { ...DEFAULT_LIMITS, ...limits };
  return joinTranscript(messages.map((message) => renderMessage(message, all)));
}

/** Joins rendered messages to a transcript; `note` is an additional line at the beginning. */
export function joinTranscript(rendered: readonly Pick<RenderedMessage, "text">[], note?: string): string {
  const lines = [note && `<note>${note}</note>`, ...rendered.map(({ text }) => text)];
  return ["<transcript>", ...lines.filter(Boolean), "</transcript>"].join("\n");
}

/** Limits of a rendered message, in characters. */
export interface RenderLimits {
  /** Limit of each tool result, output of a command, and argument of a call: the beginning is kept. */
  toolResultLimit: number;
  /** Limit of each other text: the beginning and the end are kept. */
  textLimit: number;
}

/** Default limits: results at 2,000 characters, texts of people and models whole. */
export const DEFAULT_LIMITS: RenderLimits = { toolResultLimit: 2_000, textLimit: Number.POSITIVE_INFINITY };

/** One rendered message between tags, with its omissions. */
export interface RenderedMessage {
  /** Text; empty for a message without content: only thinking, a system prompt, an excluded command. */
  text: string;
  /** Number of characters that the limits removed. */
  leftOut: number;
  /** Number of images and other media that were replaced by a word. */
  media: number;
}

/** Renders one message; see `renderTranscript` for the form. */
export function renderMessage(
  message: ContextMessage,
  { toolResultLimit, textLimit }: RenderLimits,
): RenderedMessage {
  const lines: string[] = [];
  let leftOut = 0;
  let media = 0;
  const within = (text: string, limit: number, shape?: CutShape): string => {
    const shown = cut(text, limit, shape);
    leftOut += shown.leftOut;
    return shown.text;
  };
  const isOutput = message.role === "toolResult" || message.role === "bashExecution";
  const addText = (text: unknown) => {
    if (typeof text !== "string" || text === "") return;
    lines.push(escapeText(isOutput ? within(text, toolResultLimit) : within(text, textLimit, "head-tail")));
  };
  const addCall = ({ name, arguments: given }: ToolCallBlock) => {
    const pairs =
      typeof given === "object" && given !== null ? Object.entries(given) : [["arguments", given]];
    const parts = pairs.map(([key, value]) => `${key}=${within(argumentJson(value) ?? "", toolResultLimit)}`);
    lines.push(`<call>${escapeText(`${fieldText(name)}(${parts.join(", ")})`)}</call>`);
  };
  const isFailed = isFailedAnswer(message);
  if (message.role === "bashExecution") {
    if (message.excludeFromContext) return { text: "", leftOut, media };
    for (const text of [`$ ${message.command ?? ""}`, message.output]) addText(text);
  } else if (message.role !== "system")
    for (const block of contentBlocks(message)) {
      if (block.type === "text") addText(block.text);
      else if (block.type === "toolCall") addCall(block);
      else if (!block.type.includes("thinking")) {
        media++;
        lines.push(escapeText(`[${block.type}]`));
      }
    }
  if (message.role === "assistant" && isFailed) addText(message.errorMessage);
  if (lines.length === 0 && !isFailed) return { text: "", leftOut, media };
  return { text: [`<message${attributes(message)}>`, ...lines, "</message>"].join("\n"), leftOut, media };
}

/** Returns the attributes of a message: its role, and facts that are not in its text. */
function attributes(message: ContextMessage): string {
  const found: Record<string, unknown> = { role: ROLE_NAMES.get(message.role) ?? message.role };
  if (message.role === "assistant" && isFailedAnswer(message)) found["failed"] = message.stopReason;
  if (message.role === "custom") found["from"] = message.customType;
  if (message.role === "toolResult") {
    found["tool"] = message.toolName;
    if (message.isError === true) found["error"] = "yes";
  }
  if (message.role === "bashExecution") {
    if (typeof message.exitCode === "number" && message.exitCode !== 0) found["exit"] = message.exitCode;
    if (message.cancelled === true) found["cancelled"] = "yes";
  }
  return Object.entries(found)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => ` ${name}="${escapeAttribute(fieldText(value))}"`)
    .join("");
}

const ROLE_NAMES = new Map(
  Object.entries<string>({
    toolResult: "tool-result",
    bashExecution: "user-command",
    compactionSummary: "earlier-summary",
    branchSummary: "branch-summary",
  }),
);

/** Returns the JSON of an argument of a call; undefined for a value without JSON. */
export const argumentJson = (value: unknown): string | undefined =>
  typeof value === "object" ? fieldText(value ?? "null") : JSON.stringify(value);

/** Kept part of a cut text: the beginning, or half at each end. */
export type CutShape = "head" | "head-tail";

/** A text within a limit, and the number of removed characters (0 when it is whole). */
export interface Cut {
  text: string;
  /** Number of removed characters (UTF-16 code units). */
  leftOut: number;
}

const cutMark = (characters: number): string => `[… ${characters} characters left out]`;

/**
 * Keeps at most `limit` characters (UTF-16 code units) of a text and adds a mark with the number of removed ones; the
 * mark is not part of the limit. A code point is never split: a pair at the cut is removed whole.
 */
export function cut(text: string, limit: number, shape: CutShape = "head"): Cut {
  const room = Math.max(0, Math.floor(limit));
  if (text.length <= room) return { text, leftOut: 0 };
  const headRoom = shape === "head" ? room : Math.ceil(room / 2);
  const head = text.slice(0, splitsPair(text, headRoom) ? headRoom - 1 : headRoom);
  const tailStart = text.length - (room - headRoom);
  const tail = text.slice(splitsPair(text, tailStart) ? tailStart + 1 : tailStart);
  const leftOut = text.length - head.length - tail.length;
  const lines = [head, cutMark(leftOut), tail].filter((line) => line !== "");
  return { text: lines.join("\n"), leftOut };
}

/** Returns the common limit at which the sum of the lengths is at most `room`; the largest integer if all fit. */
export function commonLimit(lengths: readonly number[], room: number): number {
  let left = room;
  for (const [index, length] of lengths.toSorted((a, b) => a - b).entries()) {
    const limit = left / (lengths.length - index);
    if (length > limit) return Math.floor(limit);
    left -= length;
  }
  return Number.MAX_SAFE_INTEGER;
}

/** Returns the text of {@link cut} without the count. */
export function cutText(text: string, limit: number, shape: CutShape = "head"): string {
  return cut(text, limit, shape).text;
}

/**
 * Escapes of text between tags for a model.
 *
 * Every `<` becomes `&lt;`, so that no content can open or close a tag. An `&` becomes `&amp;` only where the text
 * would otherwise read as one of these escapes; `a && b` and `R&D` stay as they are, which matters because models copy
 * commands and code out of a transcript. Both together are reversible: {@link unescapeText} restores every text. In
 * attributes and lists of lines `>`, `"`, newline and carriage return are escaped too. In both forms, lone surrogates
 * are replaced by U+FFFD.
 */
const NAMES: Record<string, string> = {
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "\n": "&#10;",
  "\r": "&#13;",
};
const CHARACTERS: Record<string, string> = { lt: "<", gt: ">", quot: '"', "#10": "\n", "#13": "\r" };

/** An `&` at the beginning of text that reads as an escape, however often it was escaped before. */
const READS_AS_ESCAPE = "&(?=(?:amp;)*(?:lt|gt|quot|#10|#13);)";
const IN_TEXT = new RegExp(`<|${READS_AS_ESCAPE}`, "g");
const IN_ATTRIBUTE = new RegExp(`[<>"\\n\\r]|${READS_AS_ESCAPE}`, "g");
const ESCAPED = /&(amp;)?((?:amp;)*)(lt|gt|quot|#10|#13);/g;

/** Escapes text between tags. */
export function escapeText(text: string): string {
  return text.toWellFormed().replace(IN_TEXT, (found) => NAMES[found] ?? "&amp;");
}

/** Escapes the value of an attribute (between double quotes), or one line of a list. */
export function escapeAttribute(text: string): string {
  return text.toWellFormed().replace(IN_ATTRIBUTE, (found) => NAMES[found] ?? "&amp;");
}

/** Returns the original text of either kind of escaped text. */
export function unescapeText(escaped: string): string {
  return escaped.replace(ESCAPED, (_, once: string | undefined, more: string, name: string) =>
    once === undefined ? (CHARACTERS[name] ?? "") : `&${more}${name};`,
  );
}

/**
 * Replaces the outermost elements of a text, each with its tags; a tag that is never closed is text. Linear in the text.
 *
 * @param opening global pattern of an opening tag, with the tag's name in group 1
 */
export function replaceElements(text: string, opening: RegExp, shown: (element: string) => string): string {
  const unclosed = new Set<string>();
  let replaced = "";
  let from = 0;
  for (const { index, 0: tag, 1: name = "" } of text.matchAll(opening)) {
    if (index < from || unclosed.has(name)) continue;
    const closing = text.indexOf(`</${name}>`, index + tag.length);
    if (closing < 0) unclosed.add(name);
    else {
      const end = closing + name.length + 3;
      replaced += text.slice(from, index) + shown(text.slice(index, end));
      from = end;
    }
  }
  return replaced + text.slice(from);
}

/** Returns whether a cut before `index` would split a surrogate pair. */
export const splitsPair = (text: string, index: number): boolean =>
  (text.codePointAt(index - 1) ?? 0) > 0xffff;
