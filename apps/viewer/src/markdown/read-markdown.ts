import MarkdownIt, { type Token } from "markdown-it";

/**
 * A reader of markdown without a rule that takes time by the square of a text, for the page and for the terminal. Markup that
 * stands in a text is text.
 */
export const markdown: MarkdownIt = new MarkdownIt({ html: false, linkify: true });
// Names of files end like names of countries: only what is written as an address becomes one.
markdown.linkify.set({ fuzzyLink: false });

/** Longer texts are shown as they are, without markup. */
const LONGEST = 200_000;

/** Milliseconds in which a text is read; one that takes longer is shown as it is. */
const BUDGET = 300;

/** Tokens that a text may become, two for most elements: a browser and a terminal take their time for each. */
const MOST_TOKENS = 20_000;

/** Level of nesting at which the library leaves out what is inside. */
const DEEPEST = 100;

/** Time limit of the current text. */
let deadline = 0;

class OutOfTime extends Error {}

/** A rule that finds nothing, asked at every place of a text. */
function watchTime(): boolean {
  if (performance.now() > deadline) throw new OutOfTime();
  return false;
}
markdown.block.ruler.before("table", "watch-time", watchTime);
markdown.inline.ruler.before("text", "watch-time", watchTime);

/**
 * Reads markdown as a flat list of blocks, which open and close. Returns undefined for a text that is too long, takes too
 * long, becomes too many tokens, or is nested so deep that the reader leaves its rest out.
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
