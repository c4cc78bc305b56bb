import type { Token, Tokens } from "marked";
import { renderInline } from "./markdown-inline.ts";
import { type MarkdownLook, wrapped, wrappedCode } from "./markdown-look.ts";
import { renderTable } from "./markdown-table.ts";

/** Blocks below each other, an empty line between two of them. */
export function renderBlocks(tokens: readonly Token[], look: MarkdownLook, between = [""]): string[] {
  const blocks = tokens
    .filter(({ type }) => type !== "space" && type !== "def" && type !== "checkbox")
    .map((token) => renderBlock(token, look));
  return blocks.flatMap((lines, at) => (at > 0 ? [...between, ...lines] : lines));
}

function renderBlock(token: Token, look: MarkdownLook): string[] {
  const render = BLOCKS[token.type];
  return render ? render(token as never, look) : wrapped(token.raw.trimEnd(), look.columns);
}

const paragraph = (token: Tokens.Paragraph | Tokens.Text, { columns, colours }: MarkdownLook) =>
  wrapped(renderInline(token.tokens ?? [token], colours), columns);

/** One for each kind; what is not here is shown as it was written. */
const BLOCKS: Readonly<Record<string, (token: never, look: MarkdownLook) => string[]>> = {
  paragraph,
  text: paragraph,
  heading({ depth, tokens }: Tokens.Heading, { columns, colours }) {
    const text = renderInline(tokens, colours);
    if (!colours.isColorSupported) return wrapped(`${"#".repeat(depth)} ${text}`, columns);
    return wrapped(depth === 1 ? colours.bold(colours.underline(text)) : colours.bold(text), columns);
  },
  code({ text, lang = "" }: Tokens.Code, { columns, colours }) {
    if (!colours.isColorSupported) return [`\`\`\`${lang}`, ...wrappedCode(text, columns), "```"];
    return indented(
      wrappedCode(text, columns - 2).map((line) => colours.cyan(line)),
      "  ",
    );
  },
  blockquote({ tokens }: Tokens.Blockquote, { columns, colours }) {
    const rail = colours.dim("│ ");
    return indented(renderBlocks(tokens, { columns: columns - 2, colours }), rail, rail);
  },
  hr: (_: Tokens.Hr, { columns, colours }) => [colours.dim("─".repeat(Math.min(columns, 40)))],
  table: renderTable,
  list({ items, ordered, start, loose }: Tokens.List, { columns, colours }) {
    const first = Number(start) || 1;
    const width = ordered ? `${first + items.length - 1}. `.length : 2;
    const blocks = items.map((item, at) => {
      const marker = item.task ? (item.checked ? "☑ " : "☐ ") : ordered ? `${first + at}. ` : "• ";
      const lines = renderBlocks(item.tokens, { columns: columns - width, colours }, loose ? [""] : []);
      return indented(lines.length > 0 ? lines : [""], " ".repeat(width), marker.padStart(width));
    });
    return blocks.flatMap((lines, at) => (loose && at > 0 ? ["", ...lines] : lines));
  },
};

/** Lines with something before each: before the first one, `first`. */
const indented = (lines: readonly string[], rest: string, first = rest): string[] =>
  lines.map((line, at) => (at === 0 ? first : rest) + line);
