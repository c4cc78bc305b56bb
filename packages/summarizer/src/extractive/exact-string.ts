/** Kind of an exact string; kinds differ in how often they are needed again. */
export type StringKind = "url" | "path" | "file" | "package" | "name" | "flag" | "word" | "value" | "common";

interface ExactString {
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

/** Colours, addresses, versions, numbers with units, error codes. */
const VALUES = [
  /^#[0-9a-fA-F]{6}(?:[0-9a-fA-F]{2})?\b/,
  /^(?:[a-z][\w.-]*|\d{1,3}(?:\.\d{1,3}){3}):\d{2,5}$/,
  /^\d{1,3}(?:\.\d{1,3}){3}$/,
  /^v?\d+\.\d+\.\d+(?:-[\w.]+)?$/,
  /^\d+(?:\.\d+)?(?:%|ms|s|min|h|d|px|rem|em|k|K|M|G|KB|MB|GB|TB|kB|KiB|MiB|GiB|Hz|kHz|MHz|GHz|x)$/,
  /^(?:TS|E|ERR|CVE|RFC|HTTP)-?\d{2,}(?:-\d+)?$/,
];

/** A commit or request id: without letters it would be a number, without digits a word. */
const HEX_ID = /^(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}$/;

/** The value that a token is, without the punctuation around it. */
function valueIn(token: string): string | undefined {
  const bare = token.replace(/[.,:;/+-]+$/, "").replace(/^[:./+-]+/, "");
  if (bare.length < 2 || !/\d/.test(bare)) return undefined;
  for (const value of VALUES) {
    const match = value.exec(bare);
    if (match !== null) return match[0];
  }
  return HEX_ID.test(bare) ? bare : undefined;
}

const SHORTEST = 5;

/** Kind of a word by its spelling; undefined for a word of prose and for encoded data. */
function nameKind(word: string): "name" | "word" | "common" | undefined {
  if (word.length < SHORTEST || looksEncoded(word) || isShout(word)) return undefined;
  if (isCommonName(word)) return "common";
  if (/^[A-Z]+$/.test(word) || /^[a-z][a-z0-9]*(?:-[a-z0-9]+)+$/.test(word)) return "word";
  return isSpeltByPrograms(word) ? "name" : undefined;
}

/** camelCase, PascalCase, snake_case, SCREAMING_CASE. */
function isSpeltByPrograms(word: string): boolean {
  if (!/^[\w$À-ɏ]+$/.test(word)) return false;
  if (/^[a-z$_][a-z0-9]*[A-Z]\w*$/.test(word)) return true;
  if (/^[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+\w*$/.test(word)) return true;
  if (/[A-Za-z0-9]_[A-Za-z0-9]/.test(word)) return !/^\d+(?:_\d+)*$/.test(word);
  return /^[A-Z][A-Z0-9]{4,}$/.test(word);
}

/** Base64, hashes inside names, minified code: many changes between digits, small and capital letters. */
function looksEncoded(word: string): boolean {
  if (word.length > 60) return true;
  if (word.length < 12) return false;
  const digits = word.match(/\d/g)?.length ?? 0;
  const changes = word.match(/[a-z][A-Z]|[A-Z]{2}[a-z]|\d[A-Za-z]|[A-Za-z]\d/g)?.length ?? 0;
  return digits / word.length > 0.3 || changes / word.length > 0.35;
}

/**
 * Names that stand in every session of their kind and that nobody has to be told: what languages bring along. Taken
 * from the languages' own references, not from any session.
 */
const NAMES = `
  addEventListener appendChild arrayBuffer charCodeAt clearInterval clearTimeout codePointAt concat
  createElement decodeURIComponent defineProperty encodeURIComponent endsWith findIndex findLast flatMap forEach
  fromEntries getElementById getOwnPropertyNames getTime hasOwnProperty indexOf innerHTML isArray isFinite isInteger
  isNaN lastIndexOf localeCompare matchAll padEnd padStart parseFloat parseInt preventDefault querySelector
  removeChild removeEventListener replaceAll requestAnimationFrame setInterval setTimeout startsWith stopPropagation
  textContent toFixed toISOString toLocaleString toLowerCase toString toUpperCase trimEnd trimStart useState
  useEffect useMemo useRef useCallback valueOf TypeError RangeError SyntaxError ReferenceError AbortController
  AbortSignal ArrayBuffer DataView TextDecoder TextEncoder Uint8Array WeakMap WeakSet JavaScript TypeScript
  AttributeError ImportError IndexError KeyError NameError NotImplementedError OSError RuntimeError StopIteration
  ValueError ZeroDivisionError FileNotFoundError isinstance issubclass setattr getattr hasattr staticmethod
  classmethod __init__ __main__ __name__ __file__ __all__ __repr__ __str__ __enter__ __exit__
  StringBuilder IOException NullPointerException IllegalArgumentException printStackTrace hashCode toArray
  HashMap BTreeMap HashSet PathBuf unwrap_or as_str to_string to_owned into_iter
  UTF-8 utf-8 built-in read-only re-render re-run
`;

/** Words of queries, and words that tools shout. They are written large, but are no names. */
const SHOUTS = `
  ALTER BEGIN BUILD CASCADE COMMIT CONSTRAINT CREATE DELETE DETAIL DISTINCT EXISTS FOREIGN GROUP HAVING INDEX INNER
  INSERT LIMIT ORDER OUTER PRIMARY REFERENCES RETURNING ROLLBACK SELECT STATEMENT TABLE TRUNCATE UNION UNIQUE UPDATE
  VALUES VARCHAR WHERE
  DEBUG ERROR ERRORS FAILED FAILURE FATAL PASSED STATUS SUCCESS SUCCESSFUL TRACE WARNING WARNINGS SKIPPED FALSE
  UNDEFINED IMPORTANT NEVER ALWAYS EXPORT IMPORT CLASS CONST HTTPS
`;
const COMMON = new Set(NAMES.trim().split(/\s+/));
const SHOUTED = new Set(SHOUTS.trim().split(/\s+/));

function isCommonName(name: string): boolean {
  return COMMON.has(name);
}

function isShout(word: string): boolean {
  return SHOUTED.has(word);
}

/**
 * Lines that define something, in the languages most code is written in, also where a tool put a path or a line number
 * before them. What a file defines is what others, and later edits, name it by.
 */
const PLACE = String.raw`^(?:[^\s:]{1,160}:)?(?:[ \t]{0,6}\d{1,6}(?:→|[:|\t])[ \t]?)?`;
const MODIFIERS = String.raw`(?:(?:export|default|declare|public|private|protected|internal|static|async|abstract|final|override|readonly|unsafe|inline|pub(?:\([a-z]{1,10}\))?)[ \t]+)*`;
const NAME = String.raw`([A-Za-z_$][\w$]{3,60})`;

const KEYWORDS =
  "class|interface|type|enum|struct|trait|protocol|function\\*?|func(?:[ \\t]*\\([^()\\n]{0,60}\\))?|fn|def|defp?|module|namespace|record|object|create table|CREATE TABLE";

const DEFINITIONS = [
  new RegExp(`${PLACE}[ \\t]{0,12}${MODIFIERS}(?:${KEYWORDS})[ \\t]+${NAME}`, "gm"),
  new RegExp(`${PLACE}(?:export[ \\t]+)?(?:const|let|var|val)[ \\t]+${NAME}`, "gm"),
  new RegExp(
    `${PLACE}[ \\t]{1,4}${MODIFIERS}(?:[gs]et[ \\t]+)?${NAME}\\([^\\n;{}]{0,200}\\)[^\\n;{}=]{0,80}\\{[ \\t]*$`,
    "gm",
  ),
  new RegExp(`${PLACE}([A-Z][A-Z0-9_]{4,60})[ \\t]*[:=]`, "gm"),
];

/** Calls `found` with each name that a text defines. */
function eachDefinition(text: string, found: (name: string) => void): void {
  for (const definition of DEFINITIONS) {
    for (const match of text.matchAll(definition)) found(match[1]!);
  }
}

/** Labels of lines in a summary. Written by one round and recognised by the next. */
export const LABELS = {
  firstRequest: "First request: ",
  earlierRequest: "Earlier request: ",
  newestRequest: "Newest request: ",
  newestWords: "Newest words: ",
  commands: "Commands: ",
  defines: "defines ",
  otherNames: "Other names: ",
  otherPaths: "Other paths: ",
  values: "Values: ",
  links: "Links: ",
  olderFailures: "Failed, never seen to succeed: ",
} as const;

/** Author of a text. Texts of people and the agent are needed again more often than what a tool printed. */
type Author = "user" | "assistant" | "call" | "tool";

/** An exact string and what is known of it. */
export interface IndexedString {
  text: string;
  kind: StringKind;
  /** Occurrences, each weighed by its author. */
  weight: number;
  /** Messages that contain it. */
  messages: number;
  /** The newest of them. */
  last: number;
  /** The file that contains it most often or defines it, where calls show that. */
  home: string | undefined;
  homeWeight: number;
  /** True for a name that some text defines. */
  defined: boolean;
  /** Weight in an earlier summary, 0 to 1. */
  prior: number;
  /** True when the user or the agent wrote it, not only a tool. */
  spoken: boolean;
  order: number;
}

/** A string of an earlier summary; `rank` is its place in its list, from 0 to 1. */
export interface Inherited extends Pick<IndexedString, "text" | "kind" | "home" | "defined"> {
  rank: number;
}

export interface StringIndex {
  read(text: string, source: { author: Author; message: number; home?: string | undefined }): void;
  /** Takes over a string of an earlier summary. */
  inherit(string: Inherited): void;
  entries(): Iterable<IndexedString>;
}

/**
 * Measured on real and written sessions cut at several points: any ratio between user, agent and tool from 1:1:1 to
 * 8:4:1 finds the same strings again within two points of recall. 4:2:1 puts what people read first.
 */
const AUTHOR_WEIGHT: Record<Author, number> = { user: 4, assistant: 2, call: 2, tool: 1 };

/** One message counts a string this often at most, so that one long listing does not outweigh the conversation. */
const OCCURRENCES_PER_MESSAGE = 30;

/** Characters of one text that are read, from both ends: outputs beyond are logs. */
const READ_HEAD = 192_000;
const READ_TAIL = 64_000;

/** Strings remembered; beyond twice as many the weaker half is forgotten. */
const REMEMBERED = 20_000;

/** Weight of a string of an earlier summary: as if it had stood in six tool outputs, a third of that for its last. */
const INHERITED_WEIGHT = 6;

export function createStringIndex(): StringIndex {
  let entries = new Map<string, IndexedString & { inMessage: number }>();
  let order = 0;

  function entry(text: string, kind: StringKind) {
    let found = entries.get(text);
    if (found === undefined) {
      if (entries.size >= REMEMBERED * 2) forgetWeakest();
      found = {
        text,
        kind,
        weight: 0,
        messages: 0,
        last: -1,
        home: undefined,
        homeWeight: 0,
        defined: false,
        prior: 0,
        spoken: false,
        order: order++,
        inMessage: 0,
      };
      entries.set(text, found);
    }
    return found;
  }

  function forgetWeakest(): void {
    const strongest = [...entries.values()].sort(
      (a, b) => b.weight - a.weight || b.last - a.last || a.order - b.order,
    );
    entries = new Map(strongest.slice(0, REMEMBERED).map((kept) => [kept.text, kept]));
  }

  /** The home that most occurrences vote for; one counter a string is enough for a majority. */
  function vote(string: IndexedString, home: string, votes: number): void {
    if (string.home === home) string.homeWeight += votes;
    else if (string.homeWeight >= votes) string.homeWeight -= votes;
    else {
      string.home = home;
      string.homeWeight = votes - string.homeWeight;
    }
  }

  return {
    read(text, { author, message, home }) {
      const readText =
        text.length <= READ_HEAD + READ_TAIL
          ? text
          : `${text.slice(0, READ_HEAD)}\n${text.slice(-READ_TAIL)}`;
      eachExactString(readText, ({ text: string, kind }) => {
        const found = entry(string, kind);
        if (found.last !== message) {
          found.last = message;
          found.messages++;
          found.inMessage = 0;
        }
        if (found.inMessage++ < OCCURRENCES_PER_MESSAGE) found.weight += AUTHOR_WEIGHT[author];
        if (author !== "tool") found.spoken = true;
        if (home !== undefined) vote(found, home, 1);
      });
      eachDefinition(readText, (name) => {
        const defined = entries.get(name);
        if (defined === undefined) return;
        defined.defined = true;
        if (home !== undefined) vote(defined, home, 20);
      });
    },
    inherit({ text, kind, home, defined, rank }) {
      const found = entry(text, kind);
      if (found.prior > 0) return;
      found.spoken = true;
      found.defined ||= defined;
      found.prior = 1 - rank * 0.66;
      found.weight += INHERITED_WEIGHT * found.prior;
      found.messages++;
      if (home !== undefined) vote(found, home, 5);
    },
    entries: () => entries.values(),
  };
}

/**
 * Kinds that are seldom needed again weigh less. Of the strings in the older part of long sessions, 15 % of the file
 * names were used again, 7 % of the names, 5 % of the paths, 2 % of the hyphenated words.
 */
const KIND_WEIGHT: Record<StringKind, number> = {
  url: 1,
  path: 1,
  file: 1,
  package: 0.8,
  name: 1,
  flag: 0.8,
  word: 0.5,
  value: 0.4,
  common: 0.35,
};

/**
 * For names that a file defines. Measured on a real session of 914 messages: 1 finds 59 % again, 1.5 63 %, 2 65 %; on
 * sessions made of the differences between releases of libraries 1 is the best, and 2 loses up to five points.
 */
const DEFINED_WEIGHT = 1.6;

/** For strings with a word in them that the user asked to attend to. */
const FOCUS_WEIGHT = 2;

/** Cost of a place in a list beside the string itself. */
const PLACE_COST = 3;

/**
 * Value of a string for each character it takes. Occurrences count by their logarithm: the tenth says less than the
 * second, and several messages more than one that repeats it. A string seen at the end counts twice as much as one
 * seen at the beginning.
 */
export function stringValue(
  string: IndexedString,
  messageCount: number,
  focus: (text: string) => boolean,
): number {
  const seen = Math.log1p(string.weight) + 0.5 * Math.log1p(string.messages);
  const recency = 1 + Math.max(string.last, 0) / Math.max(messageCount, 1);
  const defined = string.defined ? DEFINED_WEIGHT : 1;
  const asked = focus(string.text) ? FOCUS_WEIGHT : 1;
  return (seen * recency * defined * asked * KIND_WEIGHT[string.kind]) / (string.text.length + PLACE_COST);
}
