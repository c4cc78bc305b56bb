import type { Token } from "markdown-it";
import { plainLine } from "../plain-text.ts";
import { renderInline } from "./markdown-inline.ts";
import { type MarkdownBlock, type MarkdownLook, wrapped, wrappedCode } from "./markdown-look.ts";
import { renderTable } from "./markdown-table.ts";

/** Nests blocks that a reader tells one after the other. */
export function nestedBlocks(tokens: readonly Token[]): MarkdownBlock[] {
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

/** Renders blocks below each other, an empty line between two of them. */
export function renderBlocks(
  blocks: readonly MarkdownBlock[],
  look: MarkdownLook,
  between: readonly string[] = [""],
): string[] {
  return blocks.flatMap((block, at) => {
    const lines = renderBlock(block, look);
    return at > 0 ? [...between, ...lines] : lines;
  });
}

function renderBlock(block: MarkdownBlock, look: MarkdownLook): string[] {
  const render = BLOCKS[block.token.type];
  return render ? render(block, look) : wrapped(block.token.content, look.columns);
}

type RenderBlock = (block: MarkdownBlock, look: MarkdownLook) => string[];

function code({ token }: MarkdownBlock, { columns, colours }: MarkdownLook): string[] {
  const text = token.content.replace(/\n$/, "");
  if (!colours.isColorSupported)
    return [`\`\`\`${plainLine(token.info)}`, ...wrappedCode(text, columns), "```"];
  return indented(
    wrappedCode(text, columns - 2).map((line) => colours.cyan(line)),
    "  ",
  );
}

const list: RenderBlock = ({ token, blocks: items }, { columns, colours }) => {
  const isOrdered = token.type === "ordered_list_open";
  const first = Number(token.attrGet("start") ?? 1);
  const width = isOrdered ? `${first + items.length - 1}. `.length : 2;
  // The reader hides the paragraphs of a list whose items stand close together.
  const isLoose = items.some(({ blocks }) =>
    blocks.some((block) => block.token.type === "paragraph_open" && !block.token.hidden),
  );
  return items.flatMap((item, at) => {
    const marker = takeTaskMark(item) ?? (isOrdered ? `${first + at}. ` : "• ");
    const lines = renderBlocks(item.blocks, { columns: columns - width, colours }, isLoose ? [""] : []);
    const block = indented(lines.length > 0 ? lines : [""], " ".repeat(width), marker.padStart(width));
    return isLoose && at > 0 ? ["", ...block] : block;
  });
};

/** Takes `[x] ` from the beginning of an item; returns the marker that stands for it. */
function takeTaskMark({ blocks }: MarkdownBlock): string | undefined {
  const text = blocks[0]?.token.type === "paragraph_open" && blocks[0].blocks[0]?.token.children?.[0];
  const mark = text && text.type === "text" && /^\[([ xX])\] /.exec(text.content);
  if (!mark) return undefined;
  text.content = text.content.slice(mark[0].length);
  return mark[1] === " " ? "☐ " : "☑ ";
}

/** One for each kind; what is not here is shown as it was written. */
const BLOCKS: Readonly<Record<string, RenderBlock>> = {
  inline: ({ token }, { columns, colours }) => wrapped(renderInline(token.children ?? [], colours), columns),
  paragraph_open: ({ blocks }, look) => renderBlocks(blocks, look),
  heading_open({ token, blocks }, { columns, colours }) {
    const depth = Number(token.tag.slice(1));
    const text = renderInline(blocks[0]?.token.children ?? [], colours);
    if (!colours.isColorSupported) return wrapped(`${"#".repeat(depth)} ${text}`, columns);
    return wrapped(depth === 1 ? colours.bold(colours.underline(text)) : colours.bold(text), columns);
  },
  fence: code,
  code_block: code,
  blockquote_open({ blocks }, { columns, colours }) {
    const rail = colours.dim("│ ");
    return indented(renderBlocks(blocks, { columns: columns - 2, colours }), rail, rail);
  },
  hr: (_, { columns, colours }) => [colours.dim("─".repeat(Math.min(columns, 40)))],
  table_open: renderTable,
  bullet_list_open: list,
  ordered_list_open: list,
};

/** Lines with something before each: before the first one, `first`. */
const indented = (lines: readonly string[], rest: string, first = rest): string[] =>
  lines.map((line, at) => (at === 0 ? first : rest) + line);
