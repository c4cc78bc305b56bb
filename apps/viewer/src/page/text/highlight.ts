import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import markdown from "highlight.js/lib/languages/markdown";
import python from "highlight.js/lib/languages/python";
import ruby from "highlight.js/lib/languages/ruby";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";

const LANGUAGES = {
  bash,
  c,
  cpp,
  css,
  diff,
  go,
  ini,
  java,
  javascript,
  json,
  markdown,
  python,
  ruby,
  rust,
  sql,
  typescript,
  xml,
  yaml,
};

for (const [name, language] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, language);

hljs.registerAliases(["toml"], { languageName: "ini" });

hljs.registerAliases(["console", "shell", "zsh"], { languageName: "bash" });

/**
 * Maximum length of highlighted code in characters, since highlighting takes quadratic time: at worst a second here.
 */
export const LONGEST_COLOURED = 20_000;

/**
 * Matches a very long run of one kind of character, which is probably data. Such code is not highlighted: several
 * languages scan the run again at each character.
 */
const RUN = /[\w.-]{1000}|\s{1000}/;

/**
 * Returns code as markup with classes for its parts; undefined for an unknown language, for more than 20,000
 * characters, and for a run of 1,000 word or space characters.
 */
export function highlighted(code: string, language: string | undefined): string | undefined {
  if (language === undefined || !hljs.getLanguage(language)) return undefined;
  if (code.length > LONGEST_COLOURED || RUN.test(code)) return undefined;
  return hljs.highlight(code, { language, ignoreIllegals: true }).value;
}

/** Returns the extension of a file if it names a known language; else undefined. */
export function languageOf(path: string): string | undefined {
  const end = /\.([a-z0-9]+)$/i.exec(path)?.[1]?.toLowerCase();
  return end !== undefined && hljs.getLanguage(end) ? end : undefined;
}
