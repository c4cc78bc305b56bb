// Sessions as a coding agent leaves them: turns of a prompt, answers with thinking and calls, and results, in the sizes of
// real ones; 30 % on branches that were left, a compaction every 150,000 tokens, labels. Their texts are prose and code
// with quotes, line ends and characters beyond ASCII, that make JSON escape and UTF-8 decode.
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";

/** Version of the generator. Raise it when a change affects the files, so that old files are not reused. */
export const VERSION = 5;
const COMPACT_AT = 150_000;
const KEPT_TOKENS = 20_000;
const LEFT_SHARE = 0.3;
const CHARS_PER_TOKEN = 4;

/** Share of texts with characters beyond Latin-1. */
const WIDE_SHARE = 0.15;
const SIGNATURE = "EqQBCkYIBxgCKkA".repeat(14);

/** Size of results: mean about 2.7 KB, one in a hundred above 20 KB, at most 100 KB. */
const RESULT = { typical: 900, spread: 1.45, most: 100_000 };

/**
 * @typedef {object} Recipe
 * @property {number} entries how many entries the session has, and a turn more at most
 * @property {boolean} [compactions] default true; the last one then leaves half a window behind it
 * @property {boolean} [labels] default true
 * @property {boolean} [branches] default true
 * @property {boolean} [thinking] whether the user changes the thinking level now and then; default true
 * @property {number} [seed]
 * @property {number} [scale] of the sizes of texts; default 1
 */
export class SessionLines {
  entries = 0;
  /** One of every thousand entries, abandoned branches included. */
  landmarks = [];
  compactions = 0;
  #random;
  #pools = [textPool(false), textPool(true)];
  #recipe;
  #leaf = null;
  #time = Date.UTC(2026, 0, 5, 9);
  #tokens = 0;
  /** Entries of the path since the last compaction, with their tokens: possible cuts of the next compaction. */
  #since = [];

  constructor(recipe) {
    this.#recipe = {
      compactions: true,
      labels: true,
      branches: true,
      thinking: true,
      seed: 1,
      scale: 1,
      ...recipe,
    };
    this.#random = randomFrom(this.#recipe.seed);
  }

  get leaf() {
    return this.#leaf;
  }

  *lines() {
    yield JSON.stringify({
      type: "session",
      version: 3,
      id: `bench-${this.#recipe.entries}`,
      timestamp: this.#now(),
      cwd: "/home/ada/tidepool",
    });
    yield this.#entry("model_change", { provider: "anthropic", modelId: "claude-sonnet-4" });
    yield this.#entry("thinking_level_change", { thinkingLevel: "medium" });
    while (!this.#isDone()) {
      if (this.#recipe.branches && this.#random() < LEFT_SHARE) yield* this.#leftBranch();
      else yield* this.#turn(true);
      if (this.#recipe.thinking && this.#random() < 0.5) yield this.#thinkingLevel();
      if (this.#recipe.labels && this.#random() < 0.01) yield this.#label();
      if (this.#recipe.compactions && this.#tokens > COMPACT_AT) yield this.#compaction();
    }
  }

  #isDone() {
    const { entries, compactions } = this.#recipe;
    if (this.entries < entries) return false;
    return !compactions || this.compactions === 0 || this.#tokens > COMPACT_AT / 2;
  }

  *#leftBranch() {
    const { leaf } = this;
    const tokens = this.#tokens;
    yield* this.#turn(false);
    const fromId = this.leaf;
    this.#leaf = leaf;
    this.#tokens = tokens;
    if (this.#random() < 0.3) yield this.#entry("branch_summary", { fromId, summary: this.#text(900) });
  }

  *#turn(isKept) {
    const user = { role: "user", content: [{ type: "text", text: this.#text(60 + this.#random() * 400) }] };
    yield this.#message(user, isKept);
    const steps = 1 + Math.floor(this.#random() * 8);
    for (let step = 0; step < steps; step++) {
      const callId = `toolu_${this.entries.toString(36).padStart(10, "0")}`;
      yield this.#message(this.#answer(callId), isKept);
      yield this.#message(this.#result(callId), isKept);
    }
    yield this.#message(this.#answer(), isKept);
  }

  #answer(callId) {
    const content = [];
    if (this.#random() < 0.6) {
      const thinking = this.#text(100 + this.#random() * 700);
      content.push({ type: "thinking", thinking, thinkingSignature: SIGNATURE });
    }
    if (!callId || this.#random() < 0.5) content.push({ type: "text", text: this.#text(callId ? 120 : 900) });
    if (callId) {
      const path = `src/part-${Math.floor(this.#random() * 90)}/file-${Math.floor(this.#random() * 900)}.ts`;
      const isEdit = this.#random() < 0.25;
      const edit = isEdit
        ? { oldText: this.#text(250), newText: this.#text(350) }
        : { offset: 1, limit: 200 };
      content.push({
        type: "toolCall",
        id: callId,
        name: isEdit ? "edit" : "read",
        arguments: { path, ...edit },
      });
    }
    return {
      role: "assistant",
      content,
      api: "anthropic-messages",
      provider: "anthropic",
      model: "claude-sonnet-4",
      usage: {
        input: 4,
        output: 300,
        cacheRead: this.#tokens,
        cacheWrite: 900,
        totalTokens: this.#tokens + 1_204,
        cost: { input: 0.0001, output: 0.0045, cacheRead: 0.02, cacheWrite: 0.003, total: 0.0276 },
      },
      stopReason: callId ? "toolUse" : "stop",
    };
  }

  #result(toolCallId) {
    const bell = this.#random() + this.#random() + this.#random() + this.#random() - 2;
    const size = Math.min(RESULT.most, RESULT.typical * Math.exp(bell * 2 * RESULT.spread));
    const text = this.#text(size);
    return {
      role: "toolResult",
      toolCallId,
      toolName: "read",
      content: [{ type: "text", text }],
      isError: false,
    };
  }

  #message(message, isKept) {
    const line = this.#entry("message", { message: { ...message, timestamp: this.#time } });
    const tokens = Math.ceil(line.length / CHARS_PER_TOKEN);
    this.#tokens += tokens;
    // A kept part begins with a prompt or an answer, never with a result.
    if (isKept) this.#since.push({ id: this.#leaf, tokens, isStart: message.role !== "toolResult" });
    return line;
  }

  #thinkingLevel() {
    return this.#entry("thinking_level_change", { thinkingLevel: this.#random() < 0.5 ? "high" : "medium" });
  }

  #label() {
    return this.#entry("label", { targetId: this.#leaf, label: `mark ${this.entries}` });
  }

  #compaction() {
    let at = this.#since.length - 1;
    for (let kept = 0; at > 0 && (kept < KEPT_TOKENS || !this.#since[at].isStart); at--)
      kept += this.#since[at].tokens;
    const firstKeptEntryId = this.#since[at].id;
    this.#since = this.#since.slice(at);
    const tokensBefore = this.#tokens;
    this.#tokens = this.#since.reduce((sum, { tokens }) => sum + tokens, 0);
    this.compactions++;
    return this.#entry("compaction", { summary: this.#text(6_000), firstKeptEntryId, tokensBefore });
  }

  #entry(type, fields) {
    const parentId = this.#leaf;
    // A bijection on 32 bits: ids of eight hex digits that look random and are unique.
    this.#leaf = ((this.entries * 2_654_435_761) >>> 0).toString(16).padStart(8, "0");
    if (this.entries % 1_000 === 0) this.landmarks.push({ at: this.entries, id: this.#leaf });
    this.entries++;
    return JSON.stringify({ type, id: this.#leaf, parentId, timestamp: this.#now(), ...fields });
  }

  #now() {
    this.#time += 1_000;
    return new Date(this.#time).toISOString();
  }

  #text(length) {
    const wanted = Math.max(1, Math.floor(length * this.#recipe.scale));
    const pool = this.#pools[this.#random() < WIDE_SHARE ? 1 : 0];
    const start = Math.floor(this.#random() * Math.max(1, pool.length - wanted));
    return pool.slice(start, start + wanted);
  }
}

const CHUNK = 1 << 20;

/**
 * @typedef {object} SessionFile
 * @property {string} path
 * @property {number} entries
 * @property {string} leaf id of the newest entry
 * @property {{ at: number, id: string }[]} landmarks one entry in a thousand, branches that were left included
 */

/** Makes the file that a recipe describes, if it is not there. @returns {SessionFile} */
export function sessionFile(folder, recipe) {
  mkdirSync(folder, { recursive: true });
  const name = Object.entries(recipe).map(([key, value]) => `${key}-${value}`);
  const path = join(folder, `v${VERSION}_${name.join("_")}.jsonl`);
  const factsPath = `${path}.facts`;
  if (existsSync(factsPath)) return JSON.parse(readFileSync(factsPath, "utf8"));
  const session = new SessionLines(recipe);
  writeLines(`${path}.${process.pid}.part`, session.lines());
  renameSync(`${path}.${process.pid}.part`, path);
  const facts = { path, entries: session.entries, leaf: session.leaf, landmarks: session.landmarks };
  writeFileSync(factsPath, JSON.stringify(facts));
  return facts;
}

/** Writes lines in pieces of a megabyte. */
export function writeLines(path, lines) {
  const fd = openSync(path, "w");
  let text = "";
  for (const line of lines) {
    text += `${line}\n`;
    if (text.length <= CHUNK) continue;
    writeSync(fd, text);
    text = "";
  }
  writeSync(fd, text);
  closeSync(fd);
}

const WORDS =
  "the a cache store key value file path line test fails passes returns reads writes because when each entry session " +
  "request response handler timeout retry index column row parse scan offset buffer stream error cause branch leaf " +
  "summary token window model answer prompt tool result import export async await function const return größer naïve";

const CODE = [
  '  if (!entry) throw new Error("There is no entry here.");\n',
  "  const found = rows.filter((row) => row.kind === KIND && row.parent >= 0);\n",
  "\treturn { ok: true, value: JSON.parse(text) };\n",
  "export function nameOf(path: string): string | undefined {\n",
  "}\n\n",
  '    expect(read("a/b.json")).toEqual({ "id": 7, "path": "C:\\\\tmp" });\n',
  "  // The last byte in use ends the last line or belongs to it.\n",
];

/** Words with characters that need more than one byte: such texts are rarer, and slower to read. */
const WIDE_WORDS = " — → 日付 ✓ “quoted”";
const POOL_LENGTH = 1 << 20;

/** A text of a million characters; each takes one byte in memory unless the text is `wide`. */
export function textPool(isWide) {
  const random = randomFrom(7);
  const words = (isWide ? WORDS + WIDE_WORDS : WORDS).split(" ");
  const parts = [];
  for (let length = 0; length < POOL_LENGTH; length += parts.at(-1).length) {
    if (random() < 0.3) parts.push(CODE[Math.floor(random() * CODE.length)]);
    else {
      const count = 4 + Math.floor(random() * 14);
      const sentence = Array.from({ length: count }, () => words[Math.floor(random() * words.length)]);
      parts.push(`${sentence.join(" ")}. `);
    }
  }
  return parts.join("");
}

/** @returns {() => number} as Math.random, from a seed (mulberry32) */
export function randomFrom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Returns this many messages of a conversation, including results of 2 KB on average. */
export function sampleMessages(count) {
  const messages = [];
  for (const line of new SessionLines({
    entries: count * 2,
    branches: false,
    compactions: false,
    seed: 5,
  }).lines()) {
    const entry = JSON.parse(line);
    if (entry.type === "message") messages.push(entry.message);
    if (messages.length === count) break;
  }
  return messages;
}

/** Repeats a word up to this many characters. */
export const repeated = (word, length) => `${word} `.repeat(length / 2);

const said = (word, length) => [{ type: "text", text: repeated(word, length) }];

/** Messages of a turn of about 2 KB: a prompt and an answer. */
export const TURN = {
  message: { role: "user", content: said("why", 200), timestamp: 1 },
  answer: {
    role: "assistant",
    content: said("because", 400),
    provider: "anthropic",
    model: "claude-sonnet-4",
    stopReason: "stop",
    timestamp: 1,
  },
};

/** Header of a made session, without its id. */
export const HEADER = { type: "session", version: 3, timestamp: "2026-01-05T09:00:00.000Z", cwd: "/" };

/** Line of an entry of a made session. */
export const madeLine = (type, id, parentId, fields) =>
  JSON.stringify({ type, id, parentId, timestamp: HEADER.timestamp, ...fields });
