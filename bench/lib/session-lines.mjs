// The lines of a session as a coding agent leaves it: turns of a prompt, answers with thinking and calls, and results,
// in the sizes of real ones; 30 % of it on branches that were left, a compaction every 150,000 tokens, labels.
import { textPool } from "./pool.mjs";
import { randomFrom } from "./random.mjs";

/** Change it whenever a change below changes a file: files of another version are made anew. */
export const VERSION = 5;

const COMPACT_AT = 150_000;
const KEPT_TOKENS = 20_000;
const LEFT_SHARE = 0.3;
const CHARS_PER_TOKEN = 4;
/** How many texts have characters beyond Latin-1. */
const WIDE_SHARE = 0.15;
const SIGNATURE = "EqQBCkYIBxgCKkA".repeat(14);
/** Mean of about 2.7 KB, one in a hundred beyond 20 KB, at most 100 KB. */
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
  /** One entry in a thousand, branches that were left included. */
  landmarks = [];
  compactions = 0;
  #random;
  #pools = [textPool(false), textPool(true)];
  #recipe;
  #leaf = null;
  #time = Date.UTC(2026, 0, 5, 9);
  #tokens = 0;
  /** Entries of the path since the last compaction, with their tokens: where the next one may cut. */
  #since = [];

  constructor(/** @type {Recipe} */ recipe) {
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
    // A kept part begins where a turn or an answer does, never at a result.
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
    // A bijection on 32 bits: ids of eight hex digits that look random and never meet.
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
