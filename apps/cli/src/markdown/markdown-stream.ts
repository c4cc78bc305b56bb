import { readMarkdown } from "@espalier/viewer/markdown";

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
const ENDED_BY_SPACE: ReadonlySet<string> = new Set(["paragraph_open", "heading_open", "hr", "table_open"]);

/** How much of a text is blocks that stay as they are: all but the last, which may go on. */
function settledLength(text: string): number {
  const tokens = readMarkdown(text);
  // What cannot be read as markdown is shown as it is; waiting for more of it would only take longer.
  if (!tokens) return text.length;
  const last = tokens.findLast(({ level, map }) => level === 0 && map);
  if (!last) return 0;
  const [begin, end] = last.map!;
  const lines = text.split("\n");
  const isEnded =
    (ENDED_BY_SPACE.has(last.type) && lines.slice(end, -1).length > 0) ||
    isClosedFence(last.type, lines.slice(begin, end));
  return isEnded ? text.length : lines.slice(0, begin).reduce((sum, line) => sum + line.length + 1, 0);
}

/** Whether a block of code has its closing fence on a line of its own. */
function isClosedFence(type: string, lines: readonly string[]): boolean {
  const fence = /^ {0,3}(`{3,}|~{3,})/.exec(lines[0] ?? "")?.[1];
  return (
    type === "fence" &&
    fence !== undefined &&
    lines.length > 1 &&
    new RegExp(`^ {0,3}${fence[0]}{${fence.length},}[ \\t]*$`).test(lines.at(-1)!)
  );
}
