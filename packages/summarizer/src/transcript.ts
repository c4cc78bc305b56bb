import {
  type ContextMessage,
  contentBlocks,
  fieldText,
  isFailedAnswer,
  type ToolCallBlock,
} from "@espalier/session-tree";

/**
 * The messages as escaped data between tags, what a model is shown of them:
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
 * Everything from a message is escaped ({@link escapeText}), so nothing in it can close a tag or open one. Results,
 * output of commands and arguments are cut to `toolResultLimit` characters (2,000); thinking, system prompts, and
 * commands excluded from the context are left out; media become a word (`[image]`); failed and aborted answers say
 * so (`failed="aborted"`).
 */
export function renderTranscript(
  messages: readonly ContextMessage[],
  limits: Partial<RenderLimits> = {},
): string {
  const all = { ...DEFAULT_LIMITS, ...limits };
  return joinTranscript(messages.map((message) => renderMessage(message, all)));
}

/** A transcript of messages that are rendered already; `note` is a line of our own at the beginning. */
export function joinTranscript(rendered: readonly Pick<RenderedMessage, "text">[], note?: string): string {
  const texts = rendered.flatMap(({ text }) => (text === "" ? [] : [text]));
  return [
    "<transcript>",
    ...(note === undefined ? [] : [`<note>${note}</note>`]),
    ...texts,
    "</transcript>",
  ].join("\n");
}

/** Limits of a rendered message, in characters. */
export interface RenderLimits {
  /** Of each tool result, output of a command, and argument of a call: its beginning. */
  toolResultLimit: number;
  /** Of each other text: its beginning and its end. */
  textLimit: number;
}

/** Results at 2,000 characters, what people and models wrote as it is. */
export const DEFAULT_LIMITS: RenderLimits = { toolResultLimit: 2_000, textLimit: Number.POSITIVE_INFINITY };

/** One message between tags, and what of it is not there. */
export interface RenderedMessage {
  /** Empty for a message that says nothing: thinking alone, a system prompt, an excluded command. */
  text: string;
  /** Characters that the limits left out. */
  leftOut: number;
  /** Pictures and other media that became a word. */
  media: number;
}

/** Renders one message; see `renderTranscript` for the form. */
export function renderMessage(message: ContextMessage, limits: RenderLimits): RenderedMessage {
  const lines = new Lines(limits);
  switch (message.role) {
    case "system":
      break;
    case "bashExecution":
      if (!message.excludeFromContext) {
        lines.result(`$ ${message.command ?? ""}`);
        lines.result(message.output ?? "");
      }
      break;
    case "compactionSummary":
    case "branchSummary":
      lines.prose(message.summary);
      break;
    default:
      for (const block of contentBlocks(message)) {
        if (block.type === "text") {
          if (message.role === "toolResult") lines.result(block.text);
          else lines.prose(block.text);
        } else if (block.type === "toolCall") lines.call(block);
        else if (!block.type.includes("thinking")) lines.medium(block.type);
      }
      if (isFailedAnswer(message) && message.role === "assistant") lines.prose(message.errorMessage);
  }
  return lines.between(`<message${attributes(message)}>`, "</message>", isFailedAnswer(message));
}

/** The role, and what a reader needs to know about the message beside its text. */
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
    .flatMap(([name, value]) =>
      value === undefined ? [] : [` ${name}="${escapeAttribute(fieldText(value))}"`],
    )
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

class Lines {
  readonly #limits: RenderLimits;
  readonly #lines: string[] = [];
  #leftOut = 0;
  #media = 0;

  constructor(limits: RenderLimits) {
    this.#limits = limits;
  }

  prose(text: unknown): void {
    if (typeof text === "string") this.#add(cut(text, this.#limits.textLimit, "head-tail"));
  }

  result(text: unknown): void {
    if (typeof text === "string") this.#add(cut(text, this.#limits.toolResultLimit));
  }

  call(block: ToolCallBlock): void {
    const given = block.arguments;
    const pairs =
      typeof given === "object" && given !== null ? Object.entries(given) : [["arguments", given]];
    const parts = pairs.map(([name, value]) => {
      const json = typeof value === "object" ? fieldText(value ?? "null") : JSON.stringify(value);
      const shown = cut(json ?? "", this.#limits.toolResultLimit);
      this.#leftOut += shown.leftOut;
      return `${name}=${shown.text}`;
    });
    this.#lines.push(`<call>${escapeText(`${block.name}(${parts.join(", ")})`)}</call>`);
  }

  medium(kind: string): void {
    this.#media++;
    this.#lines.push(escapeText(`[${kind}]`));
  }

  #add({ text, leftOut }: Cut): void {
    this.#leftOut += leftOut;
    if (text !== "") this.#lines.push(escapeText(text));
  }

  between(open: string, close: string, evenIfEmpty: boolean): RenderedMessage {
    const empty = this.#lines.length === 0 && !evenIfEmpty;
    const text = empty ? "" : [open, ...this.#lines, close].join("\n");
    return { text, leftOut: this.#leftOut, media: this.#media };
  }
}

/** Kept part of a cut text: the beginning, or half at each end. */
export type CutShape = "head" | "head-tail";

/** A text within a limit, and how many of its characters were left out (0 when it is whole). */
export interface Cut {
  text: string;
  /** Characters that were left out (UTF-16 code units). */
  leftOut: number;
}

const cutMark = (characters: number): string => `[… ${characters} characters left out]`;

/**
 * Keeps at most `limit` characters (UTF-16 code units) of a text and says in it how many were left out; the mark comes
 * on top of the limit. A code point is never split: a pair at the cut is left out whole.
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

/** {@link cut} without the count. */
export function cutText(text: string, limit: number, shape: CutShape = "head"): string {
  return cut(text, limit, shape).text;
}

/**
 * The escape of everything that is handed to a model between tags.
 *
 * Every `<` becomes `&lt;`, so no content can open or close a tag. An `&` becomes `&amp;` only where the text would
 * otherwise read as one of these escapes; `a && b` and `R&D` stay as they are, which matters because models copy
 * commands and code out of a transcript. Both together are reversible: {@link unescapeText} gives back every text.
 * In attributes and lists of lines `>`, `"`, newline and carriage return are escaped too. Lone surrogates are healed to
 * U+FFFD, in both.
 */
const NAMES: Record<string, string> = {
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "\n": "&#10;",
  "\r": "&#13;",
};
const CHARACTERS: Record<string, string> = { lt: "<", gt: ">", quot: '"', "#10": "\n", "#13": "\r" };

/** An `&` that begins something which reads as an escape, however often it was escaped before. */
const READS_AS_ESCAPE = "&(?=(?:amp;)*(?:lt|gt|quot|#10|#13);)";
const IN_TEXT = new RegExp(`<|${READS_AS_ESCAPE}`, "g");
const IN_ATTRIBUTE = new RegExp(`[<>"\\n\\r]|${READS_AS_ESCAPE}`, "g");
const ESCAPED = /&(amp;)?((?:amp;)*)(lt|gt|quot|#10|#13);/g;

/** Text between tags. */
export function escapeText(text: string): string {
  return text.toWellFormed().replace(IN_TEXT, (found) => NAMES[found] ?? "&amp;");
}

/** The value of an attribute (between double quotes), or one line of a list. */
export function escapeAttribute(text: string): string {
  return text.toWellFormed().replace(IN_ATTRIBUTE, (found) => NAMES[found] ?? "&amp;");
}

/** The text that was escaped, by either function. */
export function unescapeText(escaped: string): string {
  return escaped.replace(ESCAPED, (_, once: string | undefined, more: string, name: string) =>
    once === undefined ? (CHARACTERS[name] ?? "") : `&${more}${name};`,
  );
}

export const isHighSurrogate = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdbff;
export const isLowSurrogate = (unit: number): boolean => unit >= 0xdc00 && unit <= 0xdfff;

/** True when a cut before `index` would separate the two halves of a code point. */
export function splitsPair(text: string, index: number): boolean {
  if (index <= 0 || index >= text.length) return false;
  return isHighSurrogate(text.charCodeAt(index - 1)) && isLowSurrogate(text.charCodeAt(index));
}
