import { readMarkdown } from "@espalier/viewer/markdown";
import { plainText } from "../plain-text.ts";
import { nestedBlocks, renderBlocks } from "./markdown-blocks.ts";
import { type MarkdownLook, wrapped } from "./markdown-look.ts";

/** The fewest columns that text is laid out in; a narrower terminal wraps it by itself. */
const NARROWEST = 20;

/** The most columns: longer lines are hard to read. */
const WIDEST = 120;

/**
 * Markdown as lines for a terminal, none wider than `columns`: marks become colours, or stay where nothing is coloured.
 * What a terminal would act on is taken out first. A text that takes the reader too long is shown as it was written.
 */
export function renderMarkdown(text: string, { columns, colours }: MarkdownLook): string[] {
  const look = { columns: Math.min(WIDEST, Math.max(NARROWEST, columns)), colours };
  const plain = plainText(text);
  const tokens = readMarkdown(plain);
  return tokens ? renderBlocks(nestedBlocks(tokens), look) : wrapped(plain, look.columns);
}
