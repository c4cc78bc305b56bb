import MarkdownIt, { type Token } from "markdown-it";

/**
 * Markdown parser for the page and the terminal, without rules that take quadratic time. HTML inside a text stays text.
 */
export const markdown: MarkdownIt = new MarkdownIt({ html: false, linkify: true });
// Many file names end like domain names, so only complete addresses become links.
markdown.linkify.set({ fuzzyLink: false });

/** Maximum characters of a text that is parsed; a longer one is shown without markup. */
const LONGEST = 200_000;

/** Maximum milliseconds to parse a text; a text that takes longer is shown without markup. */
const BUDGET = 300;

/** Maximum number of tokens of a text, two for most elements. Browsers and terminals need time for each. */
const MOST_TOKENS = 20_000;

/** Level of nesting below which the library drops content. */
const DEEPEST = 100;

/** End of the time limit for the current text. */
let deadline = 0;

class OutOfTime extends Error {}

/** Rule that never matches. The parser calls it at every position, so that the time limit is checked. */
function watchTime(): boolean {
  if (performance.now() > deadline) throw new OutOfTime();
  return false;
}
markdown.block.ruler.before("table", "watch-time", watchTime);
markdown.inline.ruler.before("text", "watch-time", watchTime);

/**
 * Parses markdown as a flat list of opening and closing blocks. Returns undefined for a text of more than 200,000
 * characters, 300 ms of parsing, 20,000 tokens, or 98 levels.
 */
export function readMarkdown(text: string): Token[] | undefined {
  if (text.length > LONGEST) return undefined;
  deadline = performance.now() + BUDGET;
  try {
    const tokens = markdown.parse(text, {});
    const count = tokens.reduce((sum, { children }) => sum + 1 + (children?.length ?? 0), 0);
    const deepest = tokens.reduce((most, { level }) => Math.max(most, level), 0);
    return count > MOST_TOKENS || deepest >= DEEPEST - 1 ? undefined : tokens;
  } catch (error) {
    if (error instanceof OutOfTime) return undefined;
    throw error;
  }
}
