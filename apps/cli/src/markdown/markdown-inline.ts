import type { Token } from "markdown-it";
import { plainText } from "../plain-text.ts";
import type { Colours } from "../shell.ts";

/** Renders what stands inside a line, styled: a text in which `\n` breaks the line. */
export function renderInline(tokens: readonly Token[], colours: Colours): string {
  const open: { token: Token; before: string }[] = [];
  let text = "";
  for (const token of tokens) {
    if (token.nesting > 0) {
      open.push({ token, before: text });
      text = "";
    } else if (token.nesting < 0) {
      const opened = open.pop()!;
      text = opened.before + (STYLES[opened.token.type]?.(text, colours, opened.token) ?? text);
    } else {
      text += LEAVES[token.type]?.(token, colours) ?? plainText(token.content);
    }
  }
  return text;
}

/** Kinds that look other than their text. Escapes of markup may name what a terminal acts on: a text is made plain again. */
const LEAVES: Readonly<Record<string, (token: Token, colours: Colours) => string>> = {
  softbreak: () => "\n",
  hardbreak: () => "\n",
  code_inline: ({ content }, colours) =>
    colours.isColorSupported ? colours.cyan(content) : `\`${content}\``,
  image: (token, colours) =>
    `[${token.content || "picture"}] ${colours.dim(`(${plainText(String(token.attrGet("src") ?? ""))})`)}`,
};

/** Kinds that have a text inside. */
const STYLES: Readonly<Record<string, (text: string, colours: Colours, token: Token) => string>> = {
  strong_open: (text, colours) => (colours.isColorSupported ? colours.bold(text) : `**${text}**`),
  em_open: (text, colours) => (colours.isColorSupported ? colours.italic(text) : `*${text}*`),
  s_open: (text, colours) => (colours.isColorSupported ? colours.strikethrough(text) : `~~${text}~~`),
  link_open(text, colours, token) {
    const address = plainText(String(token.attrGet("href") ?? ""));
    return token.markup !== "" || text === address
      ? colours.underline(text)
      : `${colours.underline(text)} ${colours.dim(`(${address})`)}`;
  },
};
