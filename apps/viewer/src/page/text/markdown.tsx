import DOMPurify from "dompurify";
import { useMemo, useState } from "preact/hooks";
import { markdown, readMarkdown } from "../../markdown/read-markdown.ts";
import { highlighted, LONGEST_COLOURED } from "./highlight.ts";
import { formatTokens } from "./numbers.ts";
import { visibleControls } from "./visible-controls.ts";

/** Text of a message, as markdown. */
export function Markdown({ text }: { text: string }) {
  const html = useMemo(() => markdownMarkup(text), [text]);
  if (html === undefined) return <PlainText text={text} />;
  return <div class="markdown" dir="auto" dangerouslySetInnerHTML={{ __html: html }} />;
}

/** Text that somebody typed: blanks, line breaks and signs as they are; code in fences with its colours. */
export function TypedText({ text }: { text: string }) {
  const parts = useMemo(() => typedParts(text), [text]);
  if (text.length > LONGEST_TYPED) return <PlainText text={text} />;
  return (
    <>
      {parts.map(({ part, isFence }, at) =>
        isFence ? (
          <Markdown key={at} text={part} />
        ) : (
          <div key={at} class="typed" dir="auto">
            {visibleControls(part)}
          </div>
        ),
      )}
    </>
  );
}

/** Longer texts are shown in parts. */
const LONGEST_TYPED = 20_000;

/** Parts of a text: what is in fences, and what is around them. A fence without an end is text. */
function typedParts(text: string): { part: string; isFence: boolean }[] {
  if (text.length > LONGEST_TYPED) return [];
  const parts: { part: string; isFence: boolean }[] = [];
  let lines: string[] = [];
  let fenced: string[] | undefined;
  const add = (part: readonly string[], isFence: boolean) => {
    const joined = part.join("\n").trimEnd();
    if (joined !== "") parts.push({ part: joined, isFence });
  };
  for (const line of text.split("\n")) {
    const mark = /^(?:`{3,}|~{3,})/.exec(line)?.[0];
    if (fenced) {
      fenced.push(line);
      if (!line.startsWith(/^(?:`+|~+)/.exec(fenced[0]!)![0]) || !/^(?:`+|~+)\s*$/.test(line)) continue;
      add(lines, false);
      add(fenced, true);
      [lines, fenced] = [[], undefined];
    } else if (mark) fenced = [line];
    else lines.push(line);
  }
  add([...lines, ...(fenced ?? [])], false);
  return parts;
}

/** Characters of a text that are shown at first, and added by each click on "more". */
const FIRST_SHOWN = 4_000;
const MORE = 200_000;

interface PlainTextProps {
  text: string;
  /** The name of a language, for its colours. */
  language?: string | undefined;
}

/** A text as it is: what a tool said, a file, a command. Long ones in parts. */
export function PlainText({ text, language }: PlainTextProps) {
  const [shown, setShown] = useState(FIRST_SHOWN);
  const part = text.length > shown ? text.slice(0, shown).toWellFormed() : text;
  const html = useMemo(
    () => (language === undefined ? undefined : codeMarkup(part, language)),
    [part, language],
  );
  return (
    <>
      {html === undefined ? (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a long text scrolls, by keys too
        <pre class="plain" tabIndex={0}>
          {visibleControls(part)}
        </pre>
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a long text scrolls, by keys too
        <pre class="plain hljs" tabIndex={0} dangerouslySetInnerHTML={{ __html: html }} />
      )}
      {text.length > shown && (
        <button type="button" class="more" onClick={() => setShown(shown + MORE)}>
          Show more of {formatTokens(text.length)} characters
        </button>
      )}
    </>
  );
}

/**
 * Text of a session as markup. This is the one place in which text becomes elements, and the browser holds the page to
 * it (trusted types): whatever a session says, what comes out has no script, no handler, no style, no form, no
 * picture, and no address but of the web.
 */
function safeMarkup(html: string): string {
  return DOMPurify.sanitize(html, {
    ALLOWED_TAGS,
    ALLOWED_ATTR: ["href", "class", "start", "align", "colspan", "rowspan", "title", "tabindex"],
    // Their values are no addresses.
    ADD_URI_SAFE_ATTR: ["start", "align", "colspan", "rowspan", "tabindex"],
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

// False outside a browser, where tests read this module.
if (DOMPurify.isSupported)
  DOMPurify.addHook("afterSanitizeAttributes", (node) => {
    if (node.hasAttribute("class")) keepOurClasses(node);
    if (node.nodeName !== "A" || !node.hasAttribute("href")) return;
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer nofollow");
  });

/** Keeps only the highlighter's classes: no content may look like a part of the page. */
function keepOurClasses(node: Element): void {
  const kept = [...node.classList].filter((name) => /^(hljs|hljs-[\w-]+|[a-z]+_)$/.test(name));
  node.setAttribute("class", kept.join(" "));
}

/** Characters of code that may still be coloured in the text at hand: as many as of one piece, in all of its pieces. */
let colourable = 0;

function codeBlock(text: string, named: string): string {
  colourable -= text.length;
  const language = colourable < 0 ? undefined : named.split(/\s/)[0]?.toLowerCase();
  return `<pre tabindex="0"><code class="hljs">${highlighted(text, language) ?? escaped(text)}</code></pre>`;
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

// The text of a list's item is an element of its own, so that blanks in it can be kept and those around it cannot.
markdown.core.ruler.push("item-texts", ({ tokens }) => {
  for (const token of tokens) {
    if (!token.hidden || !token.type.startsWith("paragraph_")) continue;
    token.hidden = false;
    token.tag = "span";
    if (token.nesting > 0) token.attrSet("class", "text_");
  }
});

// Escapes of markup may name what is hidden in a text; what they stand for is shown as well.
markdown.renderer.rules.text = (tokens, at) => escaped(visibleControls(tokens[at]!.content));

/** Markdown as safe markup; undefined for a text that is too long, takes too long, or becomes too many elements. */
function markdownMarkup(text: string): string | undefined {
  const tokens = readMarkdown(visibleControls(text));
  if (!tokens) return undefined;
  colourable = LONGEST_COLOURED;
  return safeMarkup(markdown.renderer.render(tokens, markdown.options, {}));
}

/** Code as safe markup. */
function codeMarkup(code: string, language: string | undefined): string | undefined {
  const markup = highlighted(visibleControls(code), language);
  return markup === undefined ? undefined : safeMarkup(markup);
}

const ENTITIES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escaped = (text: string): string => text.replace(/[&<>"]/g, (character) => ENTITIES[character]!);
