import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Session } from "@espalier/engine";
import { type CacheCause, cacheLedger } from "@espalier/engine/reading";
import { bytesView } from "@espalier/jsonl-stream";
import {
  type AssistantMessage,
  anthropicFormat,
  buildRequest,
  compaction,
  contextEdit,
  custom,
  message,
  modelChange,
  type NewEntry,
  type SessionContext,
  SessionTree,
  type StoredMessage,
  Tree,
  thinkingLevelChange,
} from "@espalier/session-tree";
import { FileLog } from "@espalier/session-tree/node";
import { PromptCache, quarterOfBytes, scriptedSummarizer } from "@espalier/summarizer/testing";
import { describe, expect, test } from "vitest";
import { plant, soundAnswer, words } from "./build-session.ts";

const MINUTE = 60_000;

/** A provider with a prefix cache, and a conversation with it: requests are built from the session and billed by what the cache had. */
class Conversation {
  readonly session: Session;
  /** Content of requests that the file does not record. */
  system = "You tend a garden. It is 09:00:12.";
  model = "claude-sonnet-4-5";
  cache = new PromptCache();
  /** True for a provider that leaves out thinking of turns that have ended. */
  dropsThinking = false;
  #time = Date.parse("2026-03-01T09:00:00.000Z");

  constructor(session: Session) {
    this.session = session;
  }

  /** Appends an entry at the time of the conversation. */
  async append(draft: NewEntry): Promise<string> {
    const timestamp = new Date(this.#time).toISOString();
    const [entry] = await this.session.append([{ ...draft, timestamp }]);
    return entry!.id;
  }

  pause(minutes: number): void {
    this.#time += minutes * MINUTE;
    // An entry that is not used for five minutes is gone.
    if (minutes > 5) this.cache = new PromptCache();
  }

  async say(content: StoredMessage | string): Promise<string> {
    const timestamp = this.#time;
    const said = typeof content === "string" ? ({ role: "user", content, timestamp } as const) : content;
    return this.append(message.of({ message: said }));
  }

  /** The request as it would go out now. */
  request() {
    const { context } = this.session;
    const model = { provider: "anthropic", modelId: this.model };
    const { dropsThinking } = this;
    const built = buildRequest(dropsThinking ? withoutThinking(context) : context, {
      format: anthropicFormat,
      model,
      system: this.system,
    });
    return { ...built, model: this.model, thinking: context.thinkingLevel, cache_control: {} };
  }

  async answer(content: AssistantMessage["content"] = [{ type: "text", text: "So it is." }]) {
    const { read, written } = this.cache.use(this.request(), quarterOfBytes);
    const startedAt = this.#time;
    this.#time += 2_000;
    const usage = { input: 3, output: 15, cacheRead: read, cacheWrite: written };
    const id = await this.say({
      role: "assistant",
      content,
      provider: "anthropic",
      model: this.model,
      usage,
      stopReason: content.some(({ type }) => type === "toolCall") ? "toolUse" : "stop",
      timestamp: startedAt,
    });
    return id;
  }

  async turn(name: string, tokens = 1_000): Promise<string> {
    const id = await this.say(`${name}: ${words(tokens)}`);
    await this.answer();
    return id;
  }
}

function withoutThinking(context: SessionContext): SessionContext {
  const messages = context.messages.map((one) =>
    one.role === "assistant" && Array.isArray(one.content)
      ? { ...one, content: one.content.filter(({ type }) => type !== "thinking") }
      : one,
  );
  return { ...context, messages };
}

/** A conversation of eight turns without a break, about 8,000 tokens. */
async function converse(): Promise<{ talk: Conversation; session: Session; asked: string[] }> {
  const summarizer = scriptedSummarizer((request) => ({ text: soundAnswer(request) }));
  const { session } = await plant({ turns: 0, summarizer, compaction: { keepRecentTokens: 1_500 } });
  const talk = new Conversation(session);
  const asked: string[] = [];
  for (let at = 0; at < 8; at++) asked.push(await talk.turn(`Turn ${at}`));
  return { talk, session, asked };
}

const call = (id: string) =>
  ({ type: "toolCall", id, name: "read", arguments: { path: `${id}.ts` } }) as const;
const said = (text: string) => [{ type: "text", text } as const];
const ANSWER = {
  role: "assistant",
  provider: "anthropic",
  model: "claude-sonnet-4-5",
  stopReason: "stop",
} as const;
const resultOf = (toolCallId: string, text: string): StoredMessage => ({
  role: "toolResult",
  toolCallId,
  toolName: "read",
  content: [{ type: "text", text }],
  isError: false,
  timestamp: 1,
});
const PICTURE = `iVBORw0KGgo${"A".repeat(12_001)}`;

/** Acts between two calls, each with the cause that the ledger has to name; they return the entry that broke the prefix. */
const PLANTED: Record<
  Exclude<CacheCause, "unknown">,
  (planted: { talk: Conversation; session: Session; asked: string[] }) => Promise<string | undefined>
> = {
  compaction: async ({ session }) => {
    const done = await session.compact();
    return done.eligible ? done.entryId : undefined;
  },
  edit: async ({ session, asked }) => {
    const edit = contextEdit.of({ targetId: asked[1]!, replacement: { content: "Shorter." } });
    return (await session.append([edit]))[0]!.id;
  },
  hide: async ({ session, asked }) =>
    (await session.append([contextEdit.of({ targetId: asked[1]!, replacement: null })]))[0]!.id,
  pictures: async ({ talk, session }) => {
    const text = { type: "text", text: "Look." } as const;
    const picture = { type: "image", data: PICTURE, mimeType: "image/png" } as const;
    const targetId = await talk.say({ role: "user", content: [text, picture], timestamp: 1 });
    await talk.answer();
    for (const name of ["a", "b", "c"]) await talk.turn(name);
    const edit = contextEdit.of({ targetId, replacement: { content: [text] } });
    return (await session.append([edit]))[0]!.id;
  },
  branch: async ({ session, asked }) => {
    await session.navigate(session.tree.getEntry(asked[2]!)!.parentId);
    return undefined;
  },
  model: async ({ talk }) => {
    talk.model = "claude-haiku-4-5";
    const change = modelChange.of({ provider: "anthropic", modelId: talk.model });
    return talk.append(change);
  },
  "thinking-level": async ({ talk }) => talk.append(thinkingLevelChange.of({ thinkingLevel: "high" })),
  tools: async ({ talk }) =>
    talk.say({ role: "system", content: "", toolsAdded: [{ name: "prune" }], timestamp: 1 }),
  "system-prompt": async ({ talk }) =>
    talk.say({ role: "system", content: "", sections: { season: "It is spring." }, timestamp: 1 }),
  "block-order": async ({ talk }) => {
    await talk.say("Read it.");
    await talk.answer([call("slow")]);
    for (const name of ["a", "b", "c"]) await talk.turn(name);
    return talk.say(resultOf("slow", "The pears are ripe."));
  },
  pause: async ({ talk }) => {
    talk.pause(6);
    return undefined;
  },
  thinking: async ({ talk, session, asked }) => {
    // A provider that leaves out the thinking of a finished turn: what is sent stays the same.
    const thought = { type: "thinking", thinking: words(2_500), thinkingSignature: "sig" } as const;
    await talk.say("Read it.");
    await talk.answer([thought, call("a")]);
    await talk.say(resultOf("a", "The pears are ripe."));
    await talk.answer([thought, { type: "text", text: "They are ripe." }]);
    talk.dropsThinking = true;
    expect(cacheLedger(session.tree).breaks).toEqual([]);
    expect(asked).toHaveLength(8);
    return undefined;
  },
  restart: async ({ talk }) => {
    talk.system = "You tend a garden. It is 09:41:07.";
    return undefined;
  },
  unrecorded: async ({ talk }) => {
    talk.system = `You tend a garden. It is 09:00:12. ${words(3_000)}`;
    return undefined;
  },
};

describe("the cause of a break of the prompt cache", () => {
  test.each(Object.entries(PLANTED))("%s is named, with its entry", async (cause, plantCause) => {
    const planted = await converse();
    const { talk, session } = planted;
    const before = cacheLedger(session.tree);
    expect(before.breaks).toEqual([]);
    expect(before.calls).toHaveLength(8);
    const entryId = await plantCause(planted);
    const said = await talk.turn("Next");
    const { breaks, byCause } = cacheLedger(session.tree);
    expect(breaks).toMatchObject([{ cause, call: session.leafId, entryId: entryId ?? said }]);
    expect(Object.keys(byCause)).toEqual([cause]);
    // What follows reads the cache again.
    await talk.turn("And on");
    expect(cacheLedger(session.tree).breaks).toEqual(breaks);
  });

  test("is unknown if nothing in the file explains it: the provider dropped a part", async () => {
    const { talk, session } = await converse();
    talk.cache = new PromptCache();
    // Of all that it had, the provider kept the first two turns.
    const request = talk.request();
    talk.cache.use({ ...request, messages: request.messages.slice(0, 4) }, quarterOfBytes);
    const said = await talk.turn("Next");
    expect(cacheLedger(session.tree).breaks).toMatchObject([{ cause: "unknown", entryId: said }]);
  });

  test("a request that lacks entries of the file comes from another program: a branch from its last entry", async () => {
    const { talk, session, asked } = await converse();
    // A second program that had read the session after its sixth turn, and that starts with a system prompt of its own.
    const own = session.leafId!;
    const sixth = session.tree.getEntry(asked[6]!)!.parentId!;
    await session.navigate(sixth);
    const { messages, ...beside } = { ...talk.request(), system: "You tend a garden. It is 09:41:07." };
    const words = "And elsewhere? Are the pears ripe there, or do they take another week or two?";
    const elsewhere = { role: "user", content: said(words) };
    const request = { ...beside, messages: [...messages, elsewhere] };
    const { read, written } = talk.cache.use(request, quarterOfBytes);
    await session.navigate(own);
    await talk.say(words);
    const usage = { input: 3, output: 5, cacheRead: read, cacheWrite: written };
    await talk.say({
      ...ANSWER,
      content: said("There."),
      usage,
      timestamp: Date.parse("2026-03-01T09:01:00Z"),
    });
    expect(cacheLedger(session.tree).breaks).toMatchObject([{ cause: "branch", entryId: sixth }]);
  });

  test("a request that began before the previous answer was written comes from another program", async () => {
    const { talk, session } = await converse();
    const asked = await talk.say("And elsewhere?");
    const startedAt = Date.parse(session.tree.getEntry(asked)!.timestamp);
    talk.pause(1);
    const before = talk.cache.use(talk.request(), quarterOfBytes);
    const usage = { input: 3, output: 5, cacheRead: before.read, cacheWrite: before.written };
    await talk.say({ ...ANSWER, content: said("So it is."), usage, timestamp: startedAt + 60_000 });
    const late = { input: 3, output: 5, cacheRead: 0, cacheWrite: before.read };
    await talk.say({ ...ANSWER, content: said("Elsewhere too."), usage: late, timestamp: startedAt + 10 });
    expect(cacheLedger(session.tree).breaks).toMatchObject([{ cause: "branch", entryId: asked }]);
  });

  test("settings that change after a request was sent are not part of it", async () => {
    const { talk, session } = await converse();
    talk.system = "You tend a garden. It is 09:41:07.";
    const asked = await talk.say("And now?");
    const startedAt = Date.parse(session.tree.getEntry(asked)!.timestamp) + 5;
    const { read, written } = talk.cache.use(talk.request(), quarterOfBytes);
    talk.pause(0.1);
    const change = await talk.append(thinkingLevelChange.of({ thinkingLevel: "high" }));
    const usage = { input: 3, output: 5, cacheRead: read, cacheWrite: written };
    await talk.say({ ...ANSWER, content: said("So it is."), usage, timestamp: startedAt });
    expect(cacheLedger(session.tree).breaks).toMatchObject([{ cause: "restart", entryId: asked }]);
    // It is part of the next.
    await talk.turn("Next");
    expect(cacheLedger(session.tree).breaks[1]).toMatchObject({
      cause: "thinking-level",
      entryId: change,
    });
  });

  test("a compaction at the beginning of a path counts as a compaction", async () => {
    const { talk, session } = await converse();
    const summary = {
      id: "a-root",
      summary: "They spoke of pears.",
      firstKeptEntryId: "a-root",
      tokensBefore: 1,
    };
    const [root] = await session.append([{ ...compaction.of(summary), parentId: null }]);
    await talk.turn("Next");
    expect(cacheLedger(session.tree).breaks).toMatchObject([{ cause: "compaction", entryId: root!.id }]);
  });

  test("a small edit near the end does not explain a loss after a long pause", async () => {
    const { talk, session, asked } = await converse();
    await session.append([contextEdit.of({ targetId: asked[7]!, replacement: null })]);
    talk.pause(10);
    const said = await talk.turn("Next");
    expect(cacheLedger(session.tree).breaks).toMatchObject([{ cause: "pause", entryId: said }]);
    // A provider that keeps entries for an hour has another reason.
    expect(cacheLedger(session.tree, { lifeMs: 60 * MINUTE }).breaks).toMatchObject([{ cause: "hide" }]);
  });

  test("a request that only grows keeps its beginning, also where an id stands twice on its path", () => {
    const usage = { input: 3, output: 5, cacheRead: 0, cacheWrite: 1_000 };
    const line = (id: string, parentId: string | null, said: StoredMessage) =>
      JSON.stringify({
        ...message.of({ message: said }),
        id,
        parentId,
        timestamp: "2026-03-01T09:00:00.000Z",
      });
    const answer = { ...ANSWER, content: said("So it is."), usage, timestamp: 1 };
    const lines = [
      line("asked", null, { role: "user", content: words(1_000), timestamp: 1 }),
      line("answered", "asked", answer),
      line("asked", "answered", { role: "user", content: "And on?", timestamp: 1 }),
      line("last", "asked", answer),
    ];
    const tree = new Tree(bytesView(new TextEncoder().encode(`${lines.join("\n")}\n`)));
    expect(cacheLedger(tree).calls.map(({ prefix }) => prefix.tokens)).toEqual([0, 1_000]);
  });

  test("a request from an earlier entry of the same path continues on a branch", async () => {
    const { talk, session, asked } = await converse();
    await session.navigate(asked[3]!);
    const entryId = session.leafId;
    await talk.answer();
    expect(cacheLedger(session.tree).calls.at(-1)!.difference).toEqual({ cause: "branch", entryId });
  });

  test("an invalid message on a branch that is left breaks nothing", async () => {
    const { talk, session, asked } = await converse();
    const invalid = {
      ...session.tree.getEntry(asked[7]!)!,
      id: "invalid",
      parentId: asked[7],
      message: null,
    };
    const end = JSON.stringify({ ...session.tree.getEntry(asked[7]!)!, id: "end", parentId: "invalid" });
    await session.navigate(asked[3]!);
    const entryId = session.leafId;
    await talk.answer();
    const lines = [...session.tree.ids()].map((id) => JSON.stringify(session.tree.getEntry(id)));
    const at = lines.findIndex((line) => line.includes(`"id":"${asked[7]}"`)) + 1;
    const answered = lines[at]!.replace(`"parentId":"${asked[7]}"`, '"parentId":"end"');
    lines.splice(at, 1, JSON.stringify(invalid), end, answered);
    const tree = new Tree(bytesView(new TextEncoder().encode(`${lines.join("\n")}\n`)));
    expect(cacheLedger(tree).calls.at(-1)!.difference).toEqual({ cause: "branch", entryId });
  });

  test("entries outside of the conversation break nothing", async () => {
    const { talk, session, asked } = await converse();
    await session.label(asked[0]!, "first");
    await session.append([custom.of({ customType: "garden", data: 1 })]);
    await talk.turn("Next");
    expect(cacheLedger(session.tree).breaks).toEqual([]);
  });

  test("a provider that reports no cache has no breaks", async () => {
    const { session } = await plant({ turns: 0 });
    for (const at of [1, 2, 3])
      await session.appendMessages([
        { role: "user", content: words(5_000) },
        {
          role: "assistant",
          content: "ok",
          usage: { input: at * 5_000, output: 1, cacheRead: 0, cacheWrite: 0 },
        },
      ]);
    expect(cacheLedger(session.tree)).toMatchObject({ breaks: [], calls: [{}, { before: 5_000 }, {}] });
  });
});

describe("what a break costs", () => {
  test("is the price of writing less that of reading, from the catalogue if the usage has no price", async () => {
    const { talk, session } = await converse();
    talk.pause(6);
    await talk.turn("Next");
    const { breaks, cost } = cacheLedger(session.tree);
    const { tokens } = breaks[0]!;
    expect(tokens).toBeGreaterThan(8_000);
    expect(breaks[0]!.cost).toBeCloseTo((tokens * (3.75 - 0.3)) / 1e6, 4);
    expect(cost.lost).toBe(breaks[0]!.cost);
  });

  test("uses the user's own prices", async () => {
    const { talk, session } = await converse();
    talk.pause(6);
    await talk.turn("Next");
    const own = { input: 10, output: 20, cacheRead: 1, cacheWrite: 101 };
    const [broken] = cacheLedger(session.tree, { prices: { "claude-sonnet-4-5": own } }).breaks;
    expect(broken!.cost).toBeCloseTo((broken!.tokens * 100) / 1e6, 2);
  });
});

/** Numbers from 0 to `below`, the same for the same seed. */
function randomOf(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

test.each(Array.from({ length: 60 }, (_, seed) => seed))(
  "a request differs from the previous one exactly at the reported position (seed %i)",
  async (seed) => {
    const random = randomOf(seed + 1);
    const { session } = await plant({ turns: 0 });
    const talk = new Conversation(session);
    const signed = (at: number) =>
      ({ type: "thinking", thinking: `Thought ${at}.`, thinkingSignature: `sig-${at}` }) as const;
    const oneOf = (ids: string[]) => ids[random(ids.length)];
    const onPath = () => oneOf(session.getBranch().map(({ id }) => id));
    let calls = 0;
    const open: string[] = [];
    const result = (toolCallId: string) =>
      talk.say({
        role: "toolResult",
        toolCallId,
        toolName: "read",
        content: [{ type: "text", text: `Result of ${toolCallId}` }],
        isError: false,
        timestamp: 1,
      });
    const sent: { messages: string[]; beside: string }[] = [];
    const answer = async (content?: AssistantMessage["content"]) => {
      const { messages, ...beside } = talk.request();
      sent.push({ messages: messages.map((one) => JSON.stringify(one)), beside: JSON.stringify(beside) });
      await talk.answer(content);
    };
    const acts = [
      async () => {
        await talk.say(`Question ${random(1e6)}.`);
        await answer([{ type: "text", text: `Answer ${random(1e6)}.` }]);
      },
      async () => {
        if (!session.context.messages.some(({ role }) => role === "user")) await talk.say("Read.");
        const id = `call-${++calls}`;
        await answer([signed(calls), call(id)]);
        await result(id);
      },
      async () => {
        await talk.say("Read slowly.");
        const id = `call-${++calls}`;
        await answer([call(id)]);
        open.push(id);
      },
      async () => {
        const late = open.shift();
        if (late) await result(late);
      },
      async () => {
        const replacement = random(2) ? null : { content: `Edited ${random(1e6)}.` };
        const target = onPath();
        if (target) await session.append([contextEdit.of({ targetId: target, replacement })]);
      },
      async () => {
        await session.navigate(oneOf([...session.tree.ids()])!);
      },
      async () => {
        const kept = onPath();
        if (kept) await session.appendCompaction(`Summary ${random(1e6)}.`, kept, 1);
      },
      async () => {
        await talk.append(thinkingLevelChange.of({ thinkingLevel: `level-${random(3)}` }));
      },
      async () => {
        await talk.say({ role: "system", content: "", sections: { a: `${random(3)}` }, timestamp: 1 });
      },
    ];
    await acts[0]!();
    for (let step = 0; step < 60; step++) await acts[[0, 0, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8][random(12)]!]!();
    await talk.say("Last.");
    await answer();
    const ledger = cacheLedger(session.tree);
    expect(ledger.calls).toHaveLength(sent.length);
    for (const [at, now] of sent.entries()) {
      const before = sent[at - 1];
      if (!before) continue;
      // The last turn may grow: its blocks are a beginning of the new ones.
      const last = before.messages.at(-1)!.slice(0, -2);
      const grows =
        before.messages.slice(0, -1).every((one, index) => one === now.messages[index]) &&
        now.messages[before.messages.length - 1]?.startsWith(last) === true;
      const same = grows && before.beside === now.beside;
      expect({ at, same: ledger.calls[at]!.difference === null, why: ledger.calls[at] }).toMatchObject({
        at,
        same,
      });
    }
  },
);

const corpus = fileURLToPath(new URL("../../../../shared/corpus/pi/large-session.jsonl", import.meta.url));

test.skipIf(!existsSync(corpus))(
  "a real session of 439 calls has 37 breaks, 4.12 million tokens, $14.2 (skipped without the corpus)",
  async () => {
    const { tree } = await SessionTree.open(FileLog.open(corpus, "read"));
    const { calls, breaks, cost, byCause } = cacheLedger(tree);
    expect([calls.length, breaks.length]).toEqual([439, 37]);
    expect(breaks.reduce((sum, { tokens }) => sum + tokens, 0) / 1e6).toBeCloseTo(4.12, 2);
    expect(cost.lost).toBeGreaterThan(14.2 * 0.99);
    expect(cost.lost).toBeLessThan(14.2 * 1.01);
    expect(cost.total).toBeCloseTo(30.33, 2);
    const counts = Object.entries(byCause).map(([cause, of]) => [cause, of.breaks]);
    expect(Object.fromEntries(counts)).toEqual({
      pause: 4,
      "thinking-level": 3,
      branch: 3,
      restart: 25,
      unrecorded: 2,
    });
    for (const { entryId } of breaks) expect(tree.has(entryId)).toBe(true);
  },
);
