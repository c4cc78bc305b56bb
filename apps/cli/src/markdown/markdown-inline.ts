import type { Token, Tokens } from "marked";
import type { Colours } from "../shell.ts";

/** What stands inside a line, styled: a text in which `\n` breaks the line. */
export function renderInline(tokens: readonly Token[], colours: Colours): string {
  return tokens.map((token) => STYLES[token.type]?.(token as never, colours) ?? plainOf(token)).join("");
}

type Style = (token: never, colours: Colours) => string;

/** One for each kind that looks other than its text. */
const STYLES: Readonly<Record<string, Style>> = {
  text: (token: Tokens.Text, colours) =>
    token.tokens ? renderInline(token.tokens, colours) : decoded(token.text),
  escape: (token: Tokens.Escape) => token.text,
  strong: (token: Tokens.Strong, colours) => styled(colours.bold, "**", token, colours),
  em: (token: Tokens.Em, colours) => styled(colours.italic, "*", token, colours),
  del: (token: Tokens.Del, colours) => styled(colours.strikethrough, "~~", token, colours),
  codespan: ({ text }: Tokens.Codespan, colours) =>
    colours.isColorSupported ? colours.cyan(text) : `\`${text}\``,
  br: () => "\n",
  // Stands for itself in the marker of the list.
  checkbox: () => "",
  link: ({ href, tokens }: Tokens.Link, colours) => {
    const text = renderInline(tokens, colours);
    return text === href || `mailto:${text}` === href
      ? colours.underline(text)
      : `${colours.underline(text)} ${colours.dim(`(${href})`)}`;
  },
  image: ({ text, href }: Tokens.Image, colours) => `[${text || "picture"}] ${colours.dim(`(${href})`)}`,
};

function styled(
  style: (text: string) => string,
  mark: string,
  { tokens }: { tokens: Token[] },
  colours: Colours,
): string {
  const text = renderInline(tokens, colours);
  return colours.isColorSupported ? style(text) : `${mark}${text}${mark}`;
}

const plainOf = (token: Token): string => ("text" in token ? String(token.text) : token.raw);

const ENTITIES: Readonly<Record<string, string>> = {
  "&amp;": "&",
  "&lt;": "<",
  "&gt;": ">",
  "&quot;": '"',
  "&#39;": "'",
  "&nbsp;": " ",
};

const decoded = (text: string): string => text.replace(/&[#\w]+;/g, (entity) => ENTITIES[entity] ?? entity);
