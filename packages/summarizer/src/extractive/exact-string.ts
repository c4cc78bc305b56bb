import { nameKind } from "./name-shape.ts";
import { valueIn } from "./value-shape.ts";

/** What an exact string is; kinds differ in how often they are needed again. */
export type StringKind = "url" | "path" | "file" | "package" | "name" | "flag" | "word" | "value" | "common";

export interface ExactString {
  text: string;
  kind: StringKind;
}

/** Longest token looked at; longer runs are encoded data, not something anyone types again. */
const LONGEST_TOKEN = 160;

const TOKENS = /https?:\/\/[^\s"'`<>()[\]{}\\|,;]{4,}|[A-Za-z0-9_À-ɏ@~#$%./:+-]{3,}/g;
const FILE_EXTENSION =
  /\.(?:[cm]?[jt]sx?|json[5cl]?|mdx?|s?css|less|html?|vue|svelte|(?:ba|z)?sh|ps1|pyi?|ipynb|go|rs|toml|ya?ml|lock|txt|[ct]sv|sql|proto|graphql|cc?|cpp|cxx|hh?|hpp|mm|java|kts?|gradle|swift|rb|php|pl|lua|jl|scala|clj|exs?|erl|hs|mli?|fs|cs|vb|dart|zig|nim|nix|tf|tfvars|hcl|conf|cfg|ini|env|xml|svg|png|jpe?g|gif|webp|pdf|log|diff|patch|tex|rst|adoc|service|plist|wasm|so|bazel|cmake|mk)$/i;
/** A place in a file and what stands there, as search tools and compilers print it: `src/a.ts:4:export`. */
const LOCATED = /^([^:]*[./][^:]*):\d+(?::\d+)?:?([^:]*)$/;
/** Most tokens: words of prose and keywords, with the mark after them. */
const PLAIN_WORD = /^[A-Za-z]?[a-z]*[.:]?$/;
/** A property of something that is no file although its name reads like an extension: `console.log`, `process.env`. */
const PROPERTY = /^(?:console|process|this|self|import|options|config|args|math|[a-z])\./i;

/** Calls `found` for each exact string of a text, in order, repetitions included. Linear in the text's length. */
export function eachExactString(text: string, found: (string: ExactString) => void): void {
  for (const match of text.matchAll(TOKENS)) {
    if (PLAIN_WORD.test(match[0])) continue;
    // \n and \t inside quoted code belong to no name.
    const isEscaped = text[match.index - 1] === "\\" && /^[bfnrtv]/.test(match[0]);
    const token = isEscaped ? match[0].slice(1) : match[0];
    if (token.length <= LONGEST_TOKEN) readToken(token, found);
  }
}

function readToken(token: string, found: (string: ExactString) => void): void {
  const whole = wholeToken(token);
  const located = LOCATED.exec(token);
  if (whole !== undefined) found(whole);
  else if (located === null) for (const part of token.split(/[/:]/)) eachNameIn(part, found);
  else for (const part of [located[1]!, located[2]!]) readToken(part, found);
}

/** Exact strings in a sentence: a measure of how much it says that cannot be said otherwise. */
export function stringCount(sentence: string): number {
  let count = 0;
  eachExactString(sentence.slice(0, 2_000), () => count++);
  return count;
}

/** A token that is one exact string: an address, a value, a flag, a path. */
function wholeToken(token: string): ExactString | undefined {
  if (/^https?:\/\/[^/]/.test(token)) return { text: token.replace(/[.,:;!?]+$/, ""), kind: "url" };
  const value = valueIn(token);
  if (value !== undefined) return { text: value, kind: "value" };
  const flag = /^--[a-zA-Z](?:[\w-]*\w)?/.exec(token)?.[0];
  if (flag !== undefined) return { text: flag, kind: "flag" };
  return token.includes("/") ? pathIn(token) : undefined;
}

/** A path, or a scoped package; words that share a slash are neither. */
function pathIn(token: string): ExactString | undefined {
  const text = token.replace(/[.:,+/#-]+$/, "").replace(/^[:+#%$-]+/, "");
  const parts = text.split("/").filter((part) => part !== "");
  if (parts.length < 2 || text.includes(":") || text.includes("//")) return undefined;
  const last = parts.at(-1)!;
  if (FILE_EXTENSION.test(last) || /^[A-Z][a-z]+file$/.test(last)) return { text, kind: "path" };
  if (text.startsWith("@") && parts.length === 2) return { text, kind: "package" };
  const isRooted = /^(?:~|\.{0,2})\//.test(text) && text.length >= 6;
  const isDeep = parts.length >= 3 && parts.every((part) => /^[\w.@-]+$/.test(part));
  return isRooted || isDeep ? { text, kind: "path" } : undefined;
}

/** File names and names inside what is left of a token; dots join names that are exact strings each. */
function eachNameIn(part: string, found: (string: ExactString) => void): void {
  const text = part.replace(/^[^\p{L}\p{N}_]+|[^\p{L}\p{N}_]+$/gu, "");
  if (text.includes(".")) {
    if (FILE_EXTENSION.test(text) && !PROPERTY.test(text) && text.length >= 5) found({ text, kind: "file" });
    else for (const piece of text.split(".")) eachNameIn(piece, found);
    return;
  }
  const kind = nameKind(text);
  if (kind !== undefined) found({ text, kind });
}
