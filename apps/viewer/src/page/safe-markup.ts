import DOMPurify from "dompurify";
import MarkdownIt from "markdown-it";
import { highlighted, LONGEST_COLOURED } from "./highlight.ts";
import { visibleControls } from "./visible-controls.ts";

/**
 * Text of a session as markup. This is the one place in which text becomes elements, and the browser holds the page to
 * it (trusted types): whatever a session says, what comes out has no script, no handler, no style, no form, no
 * picture, and no address but of the web.
 */
function safeMarkup(html: string): string {
  return DOMPurify.sanitize(html, {
    ALLOWED_TAGS,
    ALLOWED_ATTR: ["href", "class", "start", "align", "colspan", "rowspan", "title"],
    ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    RETURN_TRUSTED_TYPE: true,
  }) as unknown as string;
}

const ALLOWED_TAGS = (
  "a b blockquote br code del em h1 h2 h3 h4 h5 h6 hr i kbd li ol p pre s span strong sub sup table tbody td th thead " +
  "tr ul"
).split(" ");

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.hasAttribute("class")) keepOurClasses(node);
  if (node.nodeName !== "A") return;
  if (!node.hasAttribute("href")) return;
  node.setAttribute("target", "_blank");
  node.setAttribute("rel", "noopener noreferrer nofollow");
});

/** Only the highlighter's classes: nobody else shall look like a part of the page. */
function keepOurClasses(node: Element): void {
  const kept = [...node.classList].filter((name) => /^(hljs|hljs-[\w-]+|[a-z]+_)$/.test(name));
  node.setAttribute("class", kept.join(" "));
}

/** Characters of code that may still be coloured in the text at hand: as many as of one piece, in all of its pieces. */
let colourable = 0;

/**
 * A reader of markdown without a rule that takes time by the square of a text. Markup that stands in a text is shown as what
 * it is: text.
 */
const markdown = new MarkdownIt({ html: false, linkify: true });
// Names of files end like names of countries: only what is written as an address becomes one.
markdown.linkify.set({ fuzzyLink: false });

/** Milliseconds in which a text is read; one that takes longer is shown as it is. */
const BUDGET = 300;

/** Tokens that a text may become, two for most elements: the browser takes its time for each. */
const MOST_TOKENS = 20_000;

/** When the text at hand has taken too long. */
let deadline = 0;

class OutOfTime extends Error {}

/** A rule that finds nothing, asked at every place of a text. */
function watchTime(): boolean {
  if (performance.now() > deadline) throw new OutOfTime();
  return false;
}
markdown.block.ruler.before("table", "watch-time", watchTime);
markdown.inline.ruler.before("text", "watch-time", watchTime);

function codeBlock(text: string, named: string): string {
  colourable -= text.length;
  const language = colourable < 0 ? undefined : named.split(/\s/)[0]?.toLowerCase();
  return `<pre><code class="hljs">${highlighted(text, language) ?? escaped(text)}</code></pre>`;
}

markdown.renderer.rules.fence = (tokens, at) => codeBlock(tokens[at]!.content, tokens[at]!.info.trim());
markdown.renderer.rules.code_block = (tokens, at) => codeBlock(tokens[at]!.content, "");
// A picture at an address would be a request; its name and address are told instead.
markdown.renderer.rules.image = (tokens, at) => {
  const { content } = tokens[at]!;
  const address = String(tokens[at]!.attrGet("src") ?? "");
  return `<span>${escaped(content === "" ? "picture" : content)}</span> <code>${escaped(address)}</code>`;
};
for (const cell of ["th_open", "td_open"]) {
  markdown.renderer.rules[cell] = (tokens, at, options, _env, renderer) => {
    const token = tokens[at]!;
    // No style gets through the sanitiser.
    const side = /text-align:(\w+)/.exec(String(token.attrGet("style")))?.[1];
    token.attrs = side === undefined ? null : [["align", side]];
    return renderer.renderToken(tokens, at, options);
  };
}

/** Longer texts are shown as they are, without markup. */
const LONGEST = 200_000;

/** Markdown as safe markup; undefined for a text that is too long, takes too long, or becomes too many elements. */
export function markdownMarkup(text: string): string | undefined {
  if (text.length > LONGEST) return undefined;
  colourable = LONGEST_COLOURED;
  deadline = performance.now() + BUDGET;
  const env = {};
  try {
    const tokens = markdown.parse(visibleControls(text), env);
    const count = tokens.reduce((sum, { children }) => sum + 1 + (children?.length ?? 0), 0);
    if (count > MOST_TOKENS) return undefined;
    return safeMarkup(markdown.renderer.render(tokens, markdown.options, env));
  } catch (error) {
    if (error instanceof OutOfTime) return undefined;
    throw error;
  }
}

/** Code as safe markup. */
export function codeMarkup(code: string, language: string | undefined): string | undefined {
  const markup = highlighted(visibleControls(code), language);
  return markup === undefined ? undefined : safeMarkup(markup);
}

const ENTITIES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

const escaped = (text: string): string => text.replace(/[&<>"]/g, (character) => ENTITIES[character]!);
