import {
  type ContextMessage,
  contentBlocks,
  fieldText,
  isFailedAnswer,
  type ToolCallBlock,
} from "@espalier/session-tree";
import { type Cut, cut, escapeAttribute, escapeText } from "./text.ts";

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

/** How much of a message is shown, in characters. */
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

/** Collects the lines of one message within the limits. */
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
