import { tokensOf } from "./render-markdown.ts";

/**
 * Markdown that comes in pieces. A block is settled when nothing that comes later can change how it looks; what is not
 * settled is `pending`.
 */
export class MarkdownStream {
  #pending = "";

  get pending(): string {
    return this.#pending;
  }

  /** Takes a piece; the blocks that it settled, as they were written, or an empty text. */
  take(piece: string): string {
    this.#pending += piece.replaceAll("\r", "");
    if (!piece.includes("\n")) return "";
    // Half a line can look like another block than the whole.
    const settled = settledLength(this.#pending.slice(0, this.#pending.lastIndexOf("\n") + 1));
    const text = this.#pending.slice(0, settled);
    this.#pending = this.#pending.slice(settled);
    return text;
  }

  /** All that is left: nothing comes any more. */
  end(): string {
    const text = this.#pending;
    this.#pending = "";
    return text;
  }
}

/** Kinds of blocks that an empty line ends. */
const ENDED_BY_SPACE: ReadonlySet<string> = new Set(["paragraph", "heading", "hr", "table"]);

/** How much of a text is blocks that stay as they are: all but the last, which may go on. */
function settledLength(text: string): number {
  const tokens = tokensOf(text) ?? [];
  const last = tokens.findLastIndex(({ type }) => type !== "space");
  const token = tokens[last];
  const isEnded =
    token !== undefined &&
    ((last < tokens.length - 1 && ENDED_BY_SPACE.has(token.type)) || isClosedFence(token));
  const settled = tokens.slice(0, isEnded ? tokens.length : Math.max(0, last));
  const length = settled.reduce((sum, { raw }) => sum + raw.length, 0);
  // What the lexer counts otherwise than it was written cannot be cut there.
  return text.startsWith(settled.map(({ raw }) => raw).join("")) ? length : 0;
}

/** Whether a block of code has its closing fence on a line of its own. */
function isClosedFence({ type, raw }: { type: string; raw: string }): boolean {
  const fence = /^ {0,3}(`{3,}|~{3,})/.exec(raw)?.[1];
  const lines = raw.trimEnd().split("\n");
  return (
    type === "code" &&
    fence !== undefined &&
    lines.length > 1 &&
    raw.endsWith("\n") &&
    new RegExp(`^ {0,3}${fence[0]}{${fence.length},} *$`).test(lines.at(-1)!)
  );
}
