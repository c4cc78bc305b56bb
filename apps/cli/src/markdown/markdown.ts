import { readMarkdown } from "@espalier/viewer/markdown";
import type { Token } from "markdown-it";
import wrapAnsi from "wrap-ansi";
import type { Colours, Look } from "../shell.ts";
import { columnsOf, padToColumns, plainLine, plainText, shortWords } from "../text.ts";

/** Minimum layout width in columns; a narrower terminal wraps the lines itself. */
const NARROWEST = 20;

/** Maximum width in columns: longer lines are hard to read. */
const WIDEST = 120;

/**
 * Renders markdown as lines for a terminal, none wider than `columns`: its markup becomes colours, and stays when
 * colours are off. Control sequences are removed first. A text that {@link readMarkdown} does not parse (over 200,000
 * characters, 300 ms, …) is shown unchanged.
 */
export function renderMarkdown(text: string, { columns, colours }: Look): string[] {
  const look = { columns: Math.min(WIDEST, Math.max(NARROWEST, columns)), colours };
  const plain = plainText(text);
  const tokens = readMarkdown(plain);
  return tokens ? renderBlocks(nestedBlocks(tokens), look) : wrapText(plain, look.columns);
}

function nestedBlocks(tokens: readonly Token[]): MarkdownBlock[] {
  const outermost: MarkdownBlock[] = [];
  const open = [outermost];
  for (const token of tokens) {
    if (token.nesting < 0) {
      open.pop();
      continue;
    }
    const block = { token, blocks: [] };
    open.at(-1)!.push(block);
    if (token.nesting > 0) open.push(block.blocks);
  }
  return outermost;
}

/** Renders blocks one after another, separated by empty lines. */
function renderBlocks(blocks: readonly MarkdownBlock[], look: Look, between: readonly string[] = [""]) {
  return blocks.flatMap((block, at) => {
    const lines = BLOCKS[block.token.type]?.(block, look) ?? wrapText(block.token.content, look.columns);
    return at > 0 ? [...between, ...lines] : lines;
  });
}

type RenderBlock = (block: MarkdownBlock, look: Look) => string[];

function code({ token }: MarkdownBlock, { columns, colours }: Look): string[] {
  const text = token.content.replace(/\n$/, "");
  if (!colours.isColorSupported)
    return [`\`\`\`${plainLine(token.info)}`, ...wrappedCode(text, columns), "```"];
  return indent(
    wrappedCode(text, columns - 2).map((line) => colours.cyan(line)),
    "  ",
  );
}

const list: RenderBlock = ({ token, blocks: items }, { columns, colours }) => {
  const isOrdered = token.type === "ordered_list_open";
  const first = Number(token.attrGet("start") ?? 1);
  const width = isOrdered ? `${first + items.length - 1}. `.length : 2;
  // The parser hides the paragraphs of a list without blank lines between its items.
  const isLoose = items.some(({ blocks }) =>
    blocks.some((block) => block.token.type === "paragraph_open" && !block.token.hidden),
  );
  return items.flatMap((item, at) => {
    const marker = takeTaskMark(item) ?? (isOrdered ? `${first + at}. ` : "• ");
    const lines = renderBlocks(item.blocks, { columns: columns - width, colours }, isLoose ? [""] : []);
    const block = indent(lines.length > 0 ? lines : [""], " ".repeat(width), marker.padStart(width));
    return isLoose && at > 0 ? ["", ...block] : block;
  });
};

/** Removes `[x] ` from the beginning of an item; returns the marker that replaces it. */
function takeTaskMark({ blocks }: MarkdownBlock): string | undefined {
  const text = blocks[0]?.token.type === "paragraph_open" && blocks[0].blocks[0]?.token.children?.[0];
  const mark = text && text.type === "text" && /^\[([ xX])\] /.exec(text.content);
  if (!mark) return undefined;
  text.content = text.content.slice(mark[0].length);
  return mark[1] === " " ? "☐ " : "☑ ";
}

/** Indents lines: the first one with `first`, the others with `rest`. */
const indent = (lines: readonly string[], rest: string, first = rest): string[] =>
  lines.map((line, at) => (at === 0 ? first : rest) + line);

/** Rendering of inline tokens with nested text. */
const STYLES: Readonly<Record<string, (text: string, colours: Colours, token: Token) => string>> = {
  strong_open: (text, colours) => (colours.isColorSupported ? colours.bold(text) : `**${text}**`),
  em_open: (text, colours) => (colours.isColorSupported ? colours.italic(text) : `*${text}*`),
  s_open: (text, colours) => (colours.isColorSupported ? colours.strikethrough(text) : `~~${text}~~`),
  link_open(text, colours, token) {
    const address = plainText(String(token.attrGet("href") ?? ""));
    return token.markup !== "" || text === address
      ? colours.underline(text)
      : `${colours.underline(text)} ${colours.dim(`(${address})`)}`;
  },
};

/** Renders inline tokens without nested text. It is cleaned again, because escapes can produce control characters. */
const LEAVES: Readonly<Record<string, (token: Token, colours: Colours) => string>> = {
  softbreak: () => "\n",
  hardbreak: () => "\n",
  code_inline: ({ content }, colours) =>
    colours.isColorSupported ? colours.cyan(content) : `\`${content}\``,
  image: (token, colours) =>
    `[${token.content || "image"}] ${colours.dim(`(${plainText(String(token.attrGet("src") ?? ""))})`)}`,
};

const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0);

/** Minimum width of a table cell in columns. */
const NARROWEST_CELL = 6;

const GAP = "  ";

/** Renderers by kind of block; other kinds are shown unchanged. */
const BLOCKS: Readonly<Record<string, RenderBlock>> = {
  inline: ({ token }, { columns, colours }) => wrapText(renderInline(token.children ?? [], colours), columns),
  paragraph_open: ({ blocks }, look) => renderBlocks(blocks, look),
  heading_open({ token, blocks }, { columns, colours }) {
    const depth = Number(token.tag.slice(1));
    const text = renderInline(blocks[0]?.token.children ?? [], colours);
    if (!colours.isColorSupported) return wrapText(`${"#".repeat(depth)} ${text}`, columns);
    return wrapText(depth === 1 ? colours.bold(colours.underline(text)) : colours.bold(text), columns);
  },
  fence: code,
  code_block: code,
  blockquote_open({ blocks }, { columns, colours }) {
    const rail = colours.dim("│ ");
    return indent(renderBlocks(blocks, { columns: columns - 2, colours }), rail, rail);
  },
  hr: (_, { columns, colours }) => [colours.dim("─".repeat(Math.min(columns, 40)))],
  table_open: renderTable,
  bullet_list_open: list,
  ordered_list_open: list,
};

/** Renders the inline tokens of a line as a text; `\n` breaks the line. */
function renderInline(tokens: readonly Token[], colours: Colours): string {
  const open: { token: Token; before: string }[] = [];
  let text = "";
  for (const token of tokens) {
    if (token.nesting > 0) {
      open.push({ token, before: text });
      text = "";
    } else if (token.nesting < 0) {
      const opened = open.pop()!;
      text = opened.before + (STYLES[opened.token.type]?.(text, colours, opened.token) ?? text);
    } else {
      text += LEAVES[token.type]?.(token, colours) ?? plainText(token.content);
    }
  }
  return text;
}

/** Renders a table within the available columns; long cells are wrapped, the longest ones first. */
function renderTable({ blocks }: MarkdownBlock, { columns, colours }: Look): string[] {
  const rows = blocks.flatMap((part) => part.blocks);
  const cells = rows.map((row) =>
    row.blocks.map((cell) => renderInline(cell.blocks[0]?.token.children ?? [], colours)),
  );
  const header = cells[0] ?? [];
  const available = columns - GAP.length * (header.length - 1);
  const inColumn = (widthOf: (cell: string) => number) =>
    header.map((_, at) => Math.max(1, ...cells.map((row) => widthOf(row[at] ?? ""))));
  const widths = fitWidths(inColumn(columnsOf), inColumn(longestWord), available);
  const [head = [], ...body] = cells.map((row) => rowLines(row, widths));
  const rule = colours.dim(widths.map((width) => "─".repeat(width)).join(GAP));
  return [...head.map((line) => colours.bold(line)), rule, ...body.flat()];
}

const longestWord = (text: string): number => Math.max(...text.split(/\s+/).map(columnsOf));

/** Narrows the widest columns until all fit. Breaks words only when the longest words do not fit beside each other. */
function fitWidths(natural: readonly number[], words: readonly number[], columns: number): number[] {
  if (sum(natural) <= columns) return [...natural];
  const keepsWords = sum(words) <= columns;
  const narrowed = (most: number) =>
    natural.map((width, at) => Math.min(width, Math.max(most, keepsWords ? words[at]! : NARROWEST_CELL)));
  let most = columns;
  while (most > 0 && sum(narrowed(most)) > columns) most--;
  const widths = narrowed(most);
  let left = columns - sum(widths);
  return widths.map((width, at) => (width < natural[at]! && left-- > 0 ? width + 1 : width));
}

function rowLines(row: readonly string[], widths: readonly number[]): string[] {
  const broken = widths.map((width, at) => wrapText(row[at] ?? "", width));
  const height = Math.max(1, ...broken.map(({ length }) => length));
  return Array.from({ length: height }, (_, line) =>
    broken
      .map((lines, at) => padToColumns(lines[line] ?? "", widths[at]!))
      .join(GAP)
      .trimEnd(),
  );
}

interface MarkdownBlock {
  token: Token;
  blocks: MarkdownBlock[];
}

/** Wraps a styled text between words if possible. */
export function wrapText(text: string, columns: number): string[] {
  return wrapAnsi(shortWords(text), Math.max(1, columns), { hard: true })
    .split("\n")
    .map((line) => line.trimEnd());
}

/** Wraps a plain text and keeps its white space: wrapped lines keep their indent, up to half of the columns. */
export function wrapLiteral(text: string, columns: number): string[] {
  return text
    .replaceAll("\t", "  ")
    .split("\n")
    .flatMap((line) => {
      const blanks = /^ */.exec(line)![0].slice(0, Math.floor(columns / 2));
      const room = Math.max(1, columns - blanks.length);
      const rest = line.slice(blanks.length);
      if (columnsOf(rest) <= room) return [line.trimEnd()];
      return wrapText(rest, room).map((part) => blanks + part);
    });
}

/** Wraps lines of code and keeps their spaces. */
function wrappedCode(text: string, columns: number): string[] {
  return wrapAnsi(shortWords(text.replaceAll("\t", "  ")), Math.max(1, columns), {
    hard: true,
    trim: false,
    wordWrap: false,
  }).split("\n");
}

/** Markdown in pieces. A block is settled when later text cannot change its look; the rest is `pending`. */
export class MarkdownStream {
  #pending = "";

  get pending(): string {
    return this.#pending;
  }

  /** Adds a piece; returns the markdown of the blocks that are now settled, or an empty text. */
  take(piece: string): string {
    this.#pending += piece.replaceAll("\r", "");
    if (!piece.includes("\n")) return "";
    // A part of a line can look like another kind of block than the whole line.
    const settled = settledLength(this.#pending.slice(0, this.#pending.lastIndexOf("\n") + 1));
    const text = this.#pending.slice(0, settled);
    this.#pending = this.#pending.slice(settled);
    return text;
  }

  /** Returns the pending text at the end of the markdown. */
  end(): string {
    const text = this.#pending;
    this.#pending = "";
    return text;
  }
}

/** Kinds of blocks that end at an empty line. */
const ENDED_BY_SPACE: ReadonlySet<string> = new Set(["paragraph_open", "heading_open", "hr", "table_open"]);

/** Returns the length of the leading blocks that are settled: all but the last, which may continue. */
function settledLength(text: string): number {
  const tokens = readMarkdown(text);
  // Text that cannot be parsed as markdown is settled and shown unchanged, since more text would only take longer to
  // parse.
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

/** Returns true for a block of code with its closing fence on a line of its own. */
function isClosedFence(type: string, lines: readonly string[]): boolean {
  const fence = /^ {0,3}(`{3,}|~{3,})/.exec(lines[0] ?? "")?.[1];
  if (type !== "fence" || fence === undefined || lines.length === 1) return false;
  return new RegExp(`^ {0,3}${fence[0]}{${fence.length},}[ \\t]*$`).test(lines.at(-1)!);
}
