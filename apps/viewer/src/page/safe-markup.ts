import DOMPurify from "dompurify";
import { Marked } from "marked";
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

const marked = new Marked({
  gfm: true,
  breaks: false,
  renderer: {
    code({ text, lang }) {
      colourable -= text.length;
      const language = colourable < 0 ? undefined : lang?.split(/\s/)[0]?.toLowerCase();
      return `<pre><code class="hljs">${highlighted(text, language) ?? escaped(text)}</code></pre>`;
    },
    // A picture at an address would be a request; its name and address are told instead.
    image({ href, text }) {
      return `<span>${escaped(text === "" ? "picture" : text)}</span> <code>${escaped(href)}</code>`;
    },
    // Markup that stands in a text is shown as what it is: text.
    html({ text }) {
      return escaped(text);
    },
  },
});

/** Longer texts are shown as they are, without markup. */
const LONGEST = 200_000;

/**
 * So are texts with more marks than this that may begin or end an emphasis in one paragraph: pairing them takes time by
 * the square of how many there are, a tenth of a second for these.
 */
const MOST_MARKS = 4_000;

/** Markdown as safe markup; undefined for a text that would take too long, or is nested too deep, to be looked through. */
export function markdownMarkup(text: string): string | undefined {
  if (text.length > LONGEST) return undefined;
  const isCrowded = (paragraph: string) => (paragraph.match(/[*_~]/g)?.length ?? 0) > MOST_MARKS;
  if (text.split(/\n\s*\n/).some(isCrowded)) return undefined;
  colourable = LONGEST_COLOURED;
  try {
    return safeMarkup(marked.parse(visibleControls(text), { async: false }));
  } catch (error) {
    // Thousands of quotes in each other are no text that anybody wrote.
    if (error instanceof RangeError) return undefined;
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
