import DOMPurify from "dompurify";
import { useMemo, useState } from "preact/hooks";
import { markdown, readMarkdown } from "../../markdown/read-markdown.ts";
import { highlighted, LONGEST_COLOURED } from "./highlight.ts";
import { formatTokens } from "./numbers.ts";
import { visibleControls } from "./visible-controls.ts";

/** Text of a message, rendered as markdown. */
export function Markdown({ text }: { text: string }) {
  const html = useMemo(() => markdownMarkup(text), [text]);
  if (html === undefined) return <PlainText text={text} />;
  return <div class="markdown" dir="auto" dangerouslySetInnerHTML={{ __html: html }} />;
}

/**
 * Text that a user typed, shown as typed: only code fences are rendered as markdown. Texts over 20,000 characters are
 * plain text.
 */
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

/** Maximum characters of a typed text with rendered code fences; a longer one is plain text, shown in parts. */
const LONGEST_TYPED = 20_000;

/** Splits a text into code fences and the text between them. A fence without an end is text. */
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

/** Number of characters that are shown at first, and added by each click on "more". */
const FIRST_SHOWN = 4_000;
const MORE = 200_000;

interface PlainTextProps {
  text: string;
  /** Language for highlighting. */
  language?: string | undefined;
}

/** Unformatted text: output of a tool, a file, a command. Long texts are shown in parts. */
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
 * Converts text of a session to safe markup. Text becomes elements only here; the browser enforces this (trusted
 * types). The result has no script, handler, style, form or image, and only addresses of `http`, `https` and `mailto`.
 */
function safeMarkup(html: string): string {
  return DOMPurify.sanitize(html, {
    ALLOWED_TAGS,
    ALLOWED_ATTR: ["href", "class", "start", "align", "colspan", "rowspan", "title", "tabindex"],
    // Values of these attributes are not addresses.
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

// False outside a browser, where tests import this module.
if (DOMPurify.isSupported)
  DOMPurify.addHook("afterSanitizeAttributes", (node) => {
    if (node.hasAttribute("class")) keepOurClasses(node);
    if (node.nodeName !== "A" || !node.hasAttribute("href")) return;
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer nofollow");
  });

/** Keeps only the highlighter's classes, so that content cannot look like a part of the page. */
function keepOurClasses(node: Element): void {
  const kept = [...node.classList].filter((name) => /^(hljs|hljs-[\w-]+|[a-z]+_)$/.test(name));
  node.setAttribute("class", kept.join(" "));
}

/**
 * Number of characters of code that may still be highlighted in the current text: the limit of one block applies to all
 * blocks together.
 */
let colourable = 0;

function codeBlock(text: string, named: string): string {
  colourable -= text.length;
  const language = colourable < 0 ? undefined : named.split(/\s/)[0]?.toLowerCase();
  return `<pre tabindex="0"><code class="hljs">${highlighted(text, language) ?? escaped(text)}</code></pre>`;
}

markdown.renderer.rules.fence = (tokens, at) => codeBlock(tokens[at]!.content, tokens[at]!.info.trim());

markdown.renderer.rules.code_block = (tokens, at) => codeBlock(tokens[at]!.content, "");

// Loading an image would send a request, so its name and address are shown.
markdown.renderer.rules.image = (tokens, at) => {
  const { content } = tokens[at]!;
  const address = String(tokens[at]!.attrGet("src") ?? "");
  return `<span>${escaped(content === "" ? "image" : content)}</span> <code>${escaped(address)}</code>`;
};

for (const cell of ["th_open", "td_open"]) {
  markdown.renderer.rules[cell] = (tokens, at, options, _env, renderer) => {
    const token = tokens[at]!;
    // The sanitizer removes styles.
    const side = /text-align:(\w+)/.exec(String(token.attrGet("style")))?.[1];
    token.attrs = side === undefined ? null : [["align", side]];
    return renderer.renderToken(tokens, at, options);
  };
}

// The text of a list item is a separate element, so that white space is kept in it and not around it.
markdown.core.ruler.push("item-texts", ({ tokens }) => {
  for (const token of tokens) {
    if (!token.hidden || !token.type.startsWith("paragraph_")) continue;
    token.hidden = false;
    token.tag = "span";
    if (token.nesting > 0) token.attrSet("class", "text_");
  }
});

// Character references in a text may produce hidden characters, so the result is checked too.
markdown.renderer.rules.text = (tokens, at) => escaped(visibleControls(tokens[at]!.content));

/** Renders markdown as safe markup; undefined when {@link readMarkdown} returns undefined. */
function markdownMarkup(text: string): string | undefined {
  const tokens = readMarkdown(visibleControls(text));
  if (!tokens) return undefined;
  colourable = LONGEST_COLOURED;
  return safeMarkup(markdown.renderer.render(tokens, markdown.options, {}));
}

/** Renders code as safe markup; undefined when {@link highlighted} returns undefined. */
function codeMarkup(code: string, language: string | undefined): string | undefined {
  const markup = highlighted(visibleControls(code), language);
  return markup === undefined ? undefined : safeMarkup(markup);
}

const ENTITIES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escaped = (text: string): string => text.replace(/[&<>"]/g, (character) => ENTITIES[character]!);
