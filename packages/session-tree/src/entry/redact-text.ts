// Separate from redact.ts: it knows text, not entries.
import { type Evidence, RUN_FORMATS, SECRET_FORMATS, type SecretFormat } from "./secret-formats.ts";

/**
 * Returns the text with every well-known key replaced by `[redacted <kind of key>]`. A second call changes nothing.
 *
 * Finds plain keys and keys with escapes: of JSON and shells, percent-encoding, HTML entities, the colours of a
 * terminal. Time is linear in the length of the text; a text without possible keys is read once.
 */
export function redactText(text: string): string {
  const found: Secret[] = [];
  const isWorthDecoding = addSecrets(text, found);
  if (isWorthDecoding || WITHOUT_RUN_ESCAPED.test(text))
    for (const view of viewsBehindEscapes(text)) addSecretsOf(view, found);
  if (found.length === 0) return text;
  let redacted = "";
  let last = 0;
  for (const { start, end, name } of joined(found)) {
    redacted += `${text.slice(last, start)}[redacted ${name}]`;
    last = end;
  }
  return redacted + text.slice(last);
}

/** Position of a secret in a text. */
interface Secret {
  start: number;
  end: number;
  name: string;
  /** True when the name before the value marks it as a secret, and not its own form. */
  isNamed: boolean;
}

/** Returns the number of the last three characters: 21 bits, letter case ignored. */
const gramOf = (gram: number, code: number): number =>
  ((gram << 7) | (code < 128 ? code | 32 : 0)) & 0x1fffff;
const slotOf = (gram: number): number => (Math.imul(gram, 0x9e3779b1) >>> 17) & 0x7fff;
const formatsByGram = new Map<number, SecretFormat[]>();

/** 1 for slots with a gram of {@link formatsByGram}. 32 kB, which fits in the processor's first cache. */
const hasGram = new Uint8Array(1 << 15);

for (const format of SECRET_FORMATS) {
  for (const characters of format.grams) {
    const gram = [...characters].reduce((before, character) => gramOf(before, character.charCodeAt(0)), 0);
    formatsByGram.set(gram, [...(formatsByGram.get(gram) ?? []), format]);
    hasGram[slotOf(gram)] = 1;
  }
}

/** 1 for the characters of key runs: letters, digits, `_`, `-` and `~`. Nearly every key has a run of them. */
const isOfKey = Uint8Array.from({ length: 128 }, (_, code) =>
  /[\w~-]/.test(String.fromCharCode(code)) ? 1 : 0,
);

/** Length of the shortest run in a key, in characters. */
const RUN = 16;

/** Largest distance from the beginning of a form to its run: the address of a webhook, a name and its assignment. */
const BEFORE_RUN = 80;

/**
 * Secrets without such a run, or with one far after their beginning. Most alternatives start with a rare character and
 * look back from there, which is twice as fast as matching forwards.
 */
const WITHOUT_RUN =
  /@(?<=:\/\/[^\s/@]{0,256}@)|[Bb]asic[\s+]|BASIC[\s+]|PRIVATE[ +]KEY|Private-Lines|cret(?<=ecret)[_-]?(?:[Aa]ccess|[Kk]ey)|SECRET_(?:ACCESS|KEY)|ken token=(?<=[Tt]oken token=)|w(?<=assw|pw(?=d))|W(?<=ASSW|PW(?=D))|phrase(?<=assphrase)|PHRASE(?<=ASSPHRASE)|~(?<=\dQ~)|curl\s|ql(?<=mysql)/;
/** {@link WITHOUT_RUN} with escapes. */
const WITHOUT_RUN_ESCAPED =
  /@(?<=(?:\/|%2F)[^\s/@]{0,256}@)|%40(?<=(?:\/|%2F)[^\s/@]{0,256}%40)|[%\\](?<=(?:[Bb]asic|BASIC)[%\\])|%(?:25)?20token(?<=[Tt]oken%(?:25)?20token)|%20KEY(?<=PRIVATE%20KEY)|\+KEY(?<=PRIVATE\+KEY)/;

/**
 * Adds the secrets of a text. Returns whether the text has a run that can be a key, so that decoding its escapes is
 * worthwhile.
 */
function addSecrets(text: string, found: Secret[]): boolean {
  const isWhole = WITHOUT_RUN.test(text);
  if (isWhole) scan(text, 0, text.length, found);
  let isSuspicious = isWhole;
  let before = 0;
  let start = 0;
  while (start + RUN <= text.length) {
    // Backwards from the end of a shortest run: no run starts before the first other character that is found so.
    let at = start + RUN - 1;
    while (at >= start && isOfKeyAt(text, at)) at--;
    if (at >= start) {
      start = at + 1;
      continue;
    }
    let end = start + RUN;
    while (end < text.length && isOfKeyAt(text, end)) end++;
    if (!isName(text, start, end)) {
      isSuspicious = true;
      if (!isWhole) scan(text, Math.max(before, start - BEFORE_RUN), end, found);
      for (const format of RUN_FORMATS) addSecretAt(text, end, format, found);
      before = end;
    }
    start = end + 1;
  }
  return isSuspicious;
}

/**
 * Returns whether a run consists of words, as names in code do: no digit and few capitals. A random key never looks
 * like this.
 */
function isName(text: string, start: number, end: number): boolean {
  let capitals = 0;
  for (let at = start; at < end; at++) {
    const code = text.charCodeAt(at);
    if (code >= 48 && code <= 57) return false;
    if (code >= 65 && code <= 90) capitals++;
  }
  return capitals * 4 < end - start;
}

function isOfKeyAt(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  return code < 128 && isOfKey[code] === 1;
}

/** Adds the secrets that begin between two offsets. */
function scan(text: string, from: number, to: number, found: Secret[]): void {
  let gram = 0;
  for (let at = from; at < to; at++) {
    gram = gramOf(gram, text.charCodeAt(at));
    if (hasGram[slotOf(gram)] === 0) continue;
    for (const format of formatsByGram.get(gram) ?? []) {
      const secret = addSecretAt(text, at - 2, format, found);
      if (!secret) continue;
      // A named value can also match a more exact form of its own, so the scan continues inside it.
      if (!secret.isNamed) at = Math.max(at, secret.end - 1);
      break;
    }
  }
}

function addSecretAt(text: string, at: number, format: SecretFormat, found: Secret[]): Secret | undefined {
  const { pattern, anchor } = format;
  if (anchor !== undefined && !text.startsWith(anchor, at)) return undefined;
  pattern.lastIndex = at;
  const match = pattern.exec(text);
  const secret = match ? secretOf(match, format) : undefined;
  if (secret) found.push(secret);
  return secret;
}

function secretOf(match: RegExpExecArray, { name, anchor = "", evidence }: SecretFormat): Secret | undefined {
  const { keep = "", back = "" } = match.groups ?? {};
  const [form] = match;
  // A dot at the end belongs to the sentence.
  const end = match.index + form.length - (/\.+$/.exec(form)?.[0].length ?? 0);
  const said = form.slice(Math.max(keep.length, anchor.length));
  if (!isLikely(said, evidence)) return undefined;
  return { start: match.index + keep.length - back.length, end, name, isNamed: keep !== "" };
}

/** Returns the secrets in order, with overlapping ones joined. */
function joined(found: Secret[]): Secret[] {
  const all: Secret[] = [];
  for (const secret of found.sort((one, other) => one.start - other.start || other.end - one.end)) {
    const before = all.at(-1);
    if (!before || secret.start >= before.end) {
      all.push({ ...secret });
      continue;
    }
    before.end = Math.max(before.end, secret.end);
    if (before.isNamed && !secret.isNamed) Object.assign(before, { name: secret.name, isNamed: false });
  }
  return all;
}

/** Placeholders for keys in documentation and templates. The first is a sample key of Stripe. */
const PLACEHOLDER =
  /^4eC39HqL|example|placeholder|change[-_]?me|redacted|dummy|x{6}|X{6}|\*{4}|\.{4}|0{8}|(?:your|insert|replace|paste|enter)[-_]?(?:own|new|real|actual|the|with|this|me|secret|api|key|token|pass|personal|access|private|user|client|account)|(?:goes|key|token|secret|password)[-_]?here|(?:^|[-_])(?:your|fake|sample)[-_]|not[-_]a?[-_]?real/i;

/** A word, a number, a ticket or a short hash: parts of names of branches and files. */
const WORD =
  /^(?:[a-z]+\d{0,4}|[A-Z]+\d{0,4}|[A-Z]?[a-z]+(?:[A-Z][a-z]+)+\d{0,4}|[A-Z][a-z]+\d{0,4}|v?\d{1,8}[a-z]?|[0-9a-f]{6,8}|)$/;

/** A single word. A random key of 16 characters never has letters in this order. */
const ONE_WORD = /^[A-Z]?[a-z]+(?:[A-Z][a-z]+)*\d{0,4}$/;

function isWords(text: string): boolean {
  const parts = text.split(/[-_./=+]/);
  return parts.length === 1 ? ONE_WORD.test(text) : parts.every((part) => WORD.test(part));
}

/** Passwords of examples, and variables in the place of a password. */
const EXAMPLE_PASSWORD =
  /^(?:.*[${}<>*].*|%s|\.+|x+|(?:my|your|db|the|some|user|super)?[-_]?(?:secret|strong)?[-_]?(?:pass(?:word|wd)?|pwd|pw|secret|token|key)|user(?:name)?|change[-_]?(?:me|it|this)|postgres|mysql|root|admin|guest|test|foo|bar|baz|dev|local|docker|example|hidden|redacted)$/i;

function isLikely(text: string, evidence: Evidence): boolean {
  if (evidence === "form") return true;
  if (evidence === "password") return !EXAMPLE_PASSWORD.test(text) && !PLACEHOLDER.test(text);
  if (PLACEHOLDER.test(text) || isWords(text)) return false;
  return evidence === "not-invented" || (/\d/.test(text) && /[A-Za-z]/.test(text) && new Set(text).size >= 8);
}

/** Adds the secrets of a view, at their positions in the original text. */
function addSecretsOf(view: View, found: Secret[]): void {
  const seen: Secret[] = [];
  addSecrets(view.text, seen);
  for (const secret of seen) {
    const start = rawPlace(view, secret.start);
    // A colour after a secret does not belong to it.
    const end = view.width === 1 ? rawPlace(view, secret.end) : rawPlace(view, secret.end - 1) + 1;
    found.push({ ...secret, start, end });
  }
}

/** A text with its escapes decoded. */
interface View {
  text: string;
  /**
   * Offsets in `text` at which runs without escapes begin; `rawFrom` has the offsets of the same runs in the original
   * text.
   */
  from: number[];
  rawFrom: number[];
  /** Number of characters in `text` that replace one escape. */
  width: 0 | 1;
}

/**
 * Returns the text with its escapes decoded and, when it has colours, the text without colours. Empty when it has no
 * escapes.
 */
function viewsBehindEscapes(text: string): View[] {
  if (!ESCAPE.test(text)) return [];
  const views = [viewOf(text, 1), ...(COLOUR.test(text) ? [viewOf(text, 0)] : [])];
  return views.filter(({ from }) => from.length > 1);
}

const ESCAPE = /[\\%&\u001b]/;
const COLOUR = /(?:\u001b|\\(?:x1b|u001b|0?33|e))\[/i;
const COLOURS = /(?:\u001b|\\{1,8}(?:x1b|u001b|0?33|e))\[[0-9;:?]{0,40}[A-Za-z]/giy;

/** First character of an escape. */
const SPECIAL = /[\\%&\u001b]/g;

/** An escape of a language, also when it was escaped again; a percent-encoded character; an HTML entity. */
const ESCAPES =
  /\\{1,8}(?:u([0-9a-f]{4})|x([0-9a-f]{2})|([nrtbfv0"'`/]))|%(?:25){0,8}([0-9a-f]{2})|&(?:(quot|amp|apos|lt|gt|nbsp)|#(\d{1,3})|#x([0-9a-f]{1,4}));/iy;
const ENTITIES: Record<string, string> = { quot: '"', amp: "&", apos: "'", lt: "<", gt: ">", nbsp: " " };

/**
 * Returns a view. Width 1: each escape replaced by its character, each colour by a blank. Width 0: only the colours
 * removed.
 */
function viewOf(text: string, width: 0 | 1): View {
  const view: View = { text: "", from: [0], rawFrom: [0], width };
  const parts: string[] = [];
  let length = 0;
  let last = 0;
  SPECIAL.lastIndex = 0;
  for (let special = SPECIAL.exec(text); special; special = SPECIAL.exec(text)) {
    const at = special.index;
    COLOURS.lastIndex = at;
    ESCAPES.lastIndex = at;
    const isColour = COLOURS.test(text);
    const written = isColour || width === 0 ? undefined : ESCAPES.exec(text);
    if (!isColour && !written) continue;
    const end = isColour ? COLOURS.lastIndex : ESCAPES.lastIndex;
    parts.push(text.slice(last, at), written ? characterOf(written) : width === 1 ? " " : "");
    length += at - last + width;
    last = end;
    SPECIAL.lastIndex = end;
    view.from.push(length);
    view.rawFrom.push(last);
  }
  view.text = parts.join("") + text.slice(last);
  return view;
}

function characterOf([
  ,
  unicode,
  hex,
  plain,
  percent,
  entity,
  decimal,
  hexadecimal,
]: RegExpExecArray): string {
  if (plain !== undefined) return /\w/.test(plain) ? "\n" : plain;
  if (entity !== undefined) return ENTITIES[entity.toLowerCase()]!;
  const code = unicode ?? hex ?? percent ?? hexadecimal;
  return String.fromCharCode(code === undefined ? Number(decimal) : Number.parseInt(code, 16));
}

/** Returns the position in the original text for a position in a view. */
function rawPlace({ from, rawFrom }: View, place: number): number {
  let low = 0;
  for (let high = from.length; high - low > 1; ) {
    const middle = (low + high) >> 1;
    if (from[middle]! <= place) low = middle;
    else high = middle;
  }
  return rawFrom[low]! + place - from[low]!;
}
