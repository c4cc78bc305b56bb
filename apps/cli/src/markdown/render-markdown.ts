import { marked, type Token } from "marked";
import { plainText } from "../plain-text.ts";
import { renderBlocks } from "./markdown-blocks.ts";
import { type MarkdownLook, wrapped } from "./markdown-look.ts";

/** The fewest columns that text is laid out in; a narrower terminal wraps it by itself. */
const NARROWEST = 20;

/** The most columns: longer lines are hard to read. */
const WIDEST = 120;

/**
 * Markdown as lines for a terminal, none wider than `columns`: marks become colours, or stay where nothing is coloured.
 * What a terminal would act on is taken out first.
 */
export function renderMarkdown(text: string, { columns, colours }: MarkdownLook): string[] {
  const look = { columns: Math.min(WIDEST, Math.max(NARROWEST, columns)), colours };
  const plain = plainText(text);
  const tokens = tokensOf(plain);
  return tokens ? renderBlocks(tokens, look) : wrapped(plain, look.columns);
}

/** Undefined for what is nested deeper than the lexer can follow: that is no markdown that anybody wrote. */
export function tokensOf(plain: string): Token[] | undefined {
  try {
    return marked.lexer(plain);
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}
