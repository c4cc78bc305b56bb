// Messages of a session for the measures. Each is parsed only once.
import { type ContextMessage, isRecord, messageText, toolCalls } from "@espalier/session-tree";

/** A tool call, with its arguments as text. */
export interface ReadCall {
  id: string;
  name: string;
  arguments: Readonly<Record<string, unknown>>;
  /** Values of the arguments, one a line. */
  text: string;
}

/** One message and its derived values; names, words and lines are computed when they are first read. */
export class ReadMessage {
  readonly message: ContextMessage;
  /** Index in the transcript; -1 for a message outside of a transcript. */
  readonly at: number;
  readonly role: ContextMessage["role"];
  /** Text of the text blocks alone. */
  readonly prose: string;
  readonly calls: readonly ReadCall[];
  /** Text of the text blocks and calls. */
  readonly text: string;
  /** Size of its text in characters / 4. */
  readonly tokens: number;
  /** True for the result of a tool call that failed. */
  readonly isError: boolean;
  #names: ReadonlySet<string> | undefined;
  #words: ReadonlySet<string> | undefined;
  #lines: readonly string[] | undefined;

  constructor(message: ContextMessage, at = -1) {
    this.message = message;
    this.at = at;
    this.role = message.role;
    this.prose = messageText(message);
    this.calls = toolCalls(message).map(({ id, name, arguments: given }) => {
      const values: Record<string, unknown> = isRecord(given) ? given : { input: given };
      return { id: String(id), name: String(name), arguments: values, text: valuesText(values) };
    });
    const called = this.calls.map((call) => `${call.name} ${call.text}`);
    this.text = [this.prose, ...called].filter((part) => part !== "").join("\n");
    this.isError = message.role === "toolResult" && message.isError === true;
    this.tokens = Math.ceil(this.text.length / 4);
  }

  /** Exact strings of its text: paths, names, ids, addresses. */
  get names(): ReadonlySet<string> {
    this.#names ??= namesIn(this.text);
    return this.#names;
  }

  /** Names and words of the beginning of its text, for the rarity of words. */
  get words(): ReadonlySet<string> {
    const beginning = this.text.slice(0, COUNTED_LENGTH);
    this.#words ??= new Set([...namesIn(beginning), ...wordsIn(beginning)]);
    return this.#words;
  }

  /** Lines that are long enough to be recognized in other texts. */
  get lines(): readonly string[] {
    this.#lines ??= this.text
      .split("\n")
      .map((line) => line.trim())
      .filter(({ length }) => length >= TELLING_LINE);
    return this.#lines;
  }
}

export const tokensOf = (messages: readonly ReadMessage[]): number =>
  messages.reduce((sum, { tokens }) => sum + tokens, 0);

/** Maximum number of characters of a message that count for the rarity of words. */
const COUNTED_LENGTH = 6_000;

/** Minimum number of characters of a line that is recognized in a later result. */
const TELLING_LINE = 20;

/** Maximum depth to which arguments are read. */
const DEPTH = 6;

function valuesText(value: unknown, depth = DEPTH): string {
  if (typeof value === "string") return value;
  if (typeof value !== "object" || value === null || depth === 0) return String(value ?? "");
  return Object.values(value)
    .map((part) => valuesText(part, depth - 1))
    .join("\n");
}

/** The messages of a path in order. */
export class Transcript {
  readonly messages: readonly ReadMessage[];
  /** Messages that answer calls, by the id of the call. */
  readonly #results = new Map<string, ReadMessage>();
  readonly #places = new Map<string, number>();

  constructor(messages: readonly ContextMessage[]) {
    this.messages = messages.map((message, at) => new ReadMessage(message, at));
    for (const said of this.messages)
      if (said.message.role === "toolResult") this.#results.set(String(said.message.toolCallId), said);
  }

  /** Returns the index of the first message that has a text; -1 when there is none. */
  firstWith(text: string): number {
    const place = this.#places.get(text) ?? this.messages.findIndex((said) => said.text.includes(text));
    this.#places.set(text, place);
    return place;
  }

  /** Returns the result of a tool call; undefined when there is none before message `end`. */
  resultOf(call: ReadCall, end: number): ReadMessage | undefined {
    const result = this.#results.get(call.id);
    return result && result.at < end ? result : undefined;
  }
}

/** Extensions of files that are recognized without a folder. */
const ENDINGS =
  "ts|tsx|js|jsx|mjs|cjs|json|jsonl|md|css|html|sh|ps1|py|go|rs|toml|yaml|yml|sql|gd|tscn|cfg|conf|ini|plist|txt|lock|svg|png|env";

/**
 * Patterns of exact strings. Every repetition before an optional character is limited, so that a message of five
 * million letters is read in one pass.
 */
const NAME = new RegExp(
  [
    "https?://[^\\s\"'`<>)\\]}]+",
    "(?<![\\w@.+~-])(?:~|\\.{1,2})?/?(?:[\\w@.+-]{1,80}/){1,24}[\\w@.+-]+",
    `\\b[\\w-]{1,100}\\.(?:${ENDINGS})\\b`,
    "\\b\\d{1,3}(?:\\.\\d{1,3}){3}(?::\\d+)?\\b",
    "\\b(?:[a-z0-9-]{1,63}\\.){1,4}(?:com|org|net|io|dev|us|app|local|example)\\b(?::\\d+)?",
    "\\bv?\\d{1,9}\\.\\d{1,9}\\.\\d{1,9}(?:[-.\\w]{0,40}\\w)?\\b",
    "\\b(?=[0-9a-f]{0,40}\\d)(?=[0-9a-f]{0,40}[a-f])[0-9a-f]{7,40}\\b",
    "\\b[a-z][a-z0-9]*[A-Z]\\w{2,}\\b",
    "\\b[A-Z][a-z0-9]+[A-Z]\\w+\\b",
    "\\b[A-Za-z0-9]+_\\w{2,}\\b",
    "--[a-z][a-z-]{2,}",
    "\\b[A-Z][A-Z0-9_]{4,}\\b",
    "\\b[a-z0-9]{1,60}(?:-[a-z0-9]{1,60}){2,20}\\b",
    "\\blocalhost:\\d+\\b",
    "#\\d{2,6}\\b",
  ].join("|"),
  "g",
);

/** Names that every program has. */
const EVERYWHERE: ReadonlySet<string> = new Set([
  "JavaScript",
  "TypeScript",
  "toString",
  "forEach",
  "setTimeout",
  "className",
  "useState",
  "useEffect",
  "console.log",
  "localStorage",
  "getElementById",
  "addEventListener",
  "querySelector",
  "stringify",
  "/dev/null",
]);

const SHORTEST_NAME = 5;
const LONGEST_NAME = 140;

/** Maximum number of characters of a text that are searched for names; of a longer text both ends are. */
const READ_LENGTH = 1_000_000;

/** Returns the exact strings of a text: paths, files, addresses, identifiers, flags, versions, hashes. */
export function namesIn(text: string): Set<string> {
  const half = READ_LENGTH / 2;
  const read = text.length <= READ_LENGTH ? text : `${text.slice(0, half)}\n${text.slice(-half)}`;
  const found = read.match(NAME) ?? [];
  return new Set(found.map((match) => match.replace(/[.,:;!?]+$/, "")).filter(isTelling));
}

/** Returns whether a name identifies something: not a number, a date with slashes, or words with a slash (`and/or`). */
function isTelling(name: string): boolean {
  if (name.length < SHORTEST_NAME || name.length > LONGEST_NAME || EVERYWHERE.has(name)) return false;
  if (/^[\d./-]+$/.test(name)) return /^\d{1,3}(\.\d{1,3}){3}$|^\d+\.\d+\.\d+$/.test(name);
  return !name.includes("/") || /^https?:|[._]|^[~/]|\/.*\//.test(name);
}

/** Returns whether a name is an identifier of code, which a file has; false for paths, addresses, values, flags. */
export const isCodeName = (name: string): boolean =>
  !/[/.:#]|^--|^v?\d|^[0-9a-f]{7,40}$/.test(name) || /^[A-Z0-9_]+$/.test(name);

/** Words without information about a text. */
const COMMON: ReadonlySet<string> = new Set(
  "the and for with are was were been this that these those you she your our its from not does did done have has had can could will would should just then than there here what which who how why when all any some more most also into out down over under again only very make made use used using let lets now new get got please want need like see sure yes okay check look after before because about same other don't it's i'm let's und der die das ist nicht".split(
    " ",
  ),
);

/**
 * Returns the words of a text without common endings and without stop words. In scripts without spaces, each pair of
 * characters is a word.
 */
export const wordsIn = (text: string): string[] =>
  (text.toLowerCase().match(/\p{L}[\p{L}\p{N}'_-]{2,100}|\p{Lo}{2,100}/gu) ?? [])
    .filter((word) => !COMMON.has(word))
    .flatMap((word) => (RUN_TOGETHER.test(word) ? pairsOf(word) : [word.replace(/(?:ing|ed|es|s)$/u, "")]));

export const RUN_TOGETHER = /[\p{Script=Han}\p{Script=Hangul}\p{Script=Hiragana}\p{Script=Katakana}]/u;

const pairsOf = (word: string): string[] =>
  word.length <= 2 ? [word] : Array.from({ length: word.length - 1 }, (_, at) => word.slice(at, at + 2));

/** Returns the last parts of a path. */
export const pathEnd = (path: string, parts: number): string =>
  path.split("/").filter(Boolean).slice(-parts).join("/");

/** Returns the mean of the values that are not null; null when all are. */
export function meanOf(values: readonly (number | null)[]): number | null {
  const known = values.filter((value): value is number => value !== null);
  return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0) / known.length;
}
