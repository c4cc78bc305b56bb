import { rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { nodeFileCalls } from "../.work/jsonlStreamNode.mjs";
import * as sessionTree from "../.work/sessionTree.mjs";
import * as sessionTreeNode from "../.work/sessionTreeNode.mjs";
import { medianTime, peakMegabytes, percentile, timed, timesAtOnce } from "../lib/bench.mjs";

// The engine is loaded only by tasks that need it, so that memory of the other tasks is measured without it.
const loadEngine = () => import("../.work/engine.mjs");
const loadInterop = () => import("../.work/interopNode.mjs");
const loadPolicies = () => import("../.work/compactionPolicies.mjs");
const loadBranchSummary = () => import("../.work/branchSummary.mjs");
const WARM_UP = 200;
const STEPS = 500;
/** Durability that survives the end of the process; prompts have a higher one by default. */
const FLUSH = { durability: "flush" };
let counter = 0;

/** Context window so large that no compaction is due. */
const compaction = { contextWindow: 1e9 };

/** Opens a session by the public function. Loading the engine is not timed. */
const openEngine = async (path, options = {}) =>
  (await loadEngine()).openSession({ file: path }, { home: dirname(path), compaction, ...options });

const openToRead = (path) => openEngine(path, { mode: "read" });

const newSession = async (folder, options = {}) =>
  (await loadEngine()).createSession({ home: folder, cwd: "/", compaction, ...options });

/** Returns the answer of work on a session, which is closed then. */
async function using(opening, work) {
  const session = await opening;
  const answer = await work(session);
  await session.close();
  return answer;
}

const entryOf = (message) => sessionTree.message.of({ message });
const batchOf = (messages, at, size) =>
  Array.from({ length: size }, (_, index) => messages[(at * size + index) % messages.length]);

export const tasks = {
  /** Opens a session and builds the context at its leaf. */
  async open({ path }) {
    let session;
    await loadEngine();
    const { ms, result } = await timed(async () => {
      session = await openToRead(path);
      return session.context;
    });
    await session.close();
    return { ms, messages: result.messages.length, peak: peakMegabytes() };
  },

  /** Returns the positions of the lines in the context's window, for a contender that reads only these lines. */
  spans: ({ path }) =>
    using(openToRead(path), ({ tree, window }) => {
      const rows = window.entries.map(({ id }) => tree.row(id));
      return { spans: rows.map((row) => [tree.index.offset(row), tree.index.lineLength(row)]) };
    }),

  /** Reads the whole tree (ids, parents, types, offsets, all branches), without texts. */
  index: ({ path, withContext = false, countsBytes = false }) =>
    using(openToRead(path), async (session) => {
      // A collection of garbage before it would make the index slower.
      const before = countsBytes && bufferBytes();
      const { ms, result } = await timed(() => session.tree);
      if (withContext && session.context.messages.length === 0) throw new Error("The context is empty.");
      const { length } = result;
      const peak = peakMegabytes();
      // The columns of the index are the only buffers that stay.
      const bytesPerEntry = countsBytes && (bufferBytes() - before) / length;
      return { ms, entries: length, bytesPerEntry, peak };
    }),

  /** Explains each break of the prompt cache over a whole session. */
  cache: ({ path }) =>
    using(openToRead(path), async ({ tree }) => {
      const { cacheLedger } = await import("../.work/engineReading.mjs");
      const { ms, result } = await timed(() => cacheLedger(tree));
      return { ms, calls: result.calls.length, breaks: result.breaks.length };
    }),

  /** Imports a session of another agent into a store. The store is removed unless another import continues with it. */
  async importFile({ path, home, isKept = false }) {
    const { importSessions } = await loadInterop();
    const { ms, result } = await timed(async () => {
      const store = sessionTreeNode.fileStore({ home });
      let entries = 0;
      for await (const report of importSessions(path, { store })) entries += report.added;
      return entries;
    });
    if (!isKept) rmSync(home, { recursive: true, force: true });
    return { ms, entries: result, peak: peakMegabytes() };
  },

  /** Builds the context at an old leaf twice. */
  oldLeaf: ({ path, id }) =>
    using(openToRead(path), async (session) => {
      const first = await timed(() => session.contextAt(id));
      const again = await timed(() => session.contextAt(id));
      const { leafId } = session;
      const newest = await medianTime(5, () => session.contextAt(leafId));
      return { first: first.ms, again: again.ms, newest, messages: first.result.messages.length };
    }),

  /** One step of a running agent: append, context, tokens, policy. */
  step: ({ path, messages }) =>
    using(openEngine(path), async (session) => {
      const step = async (at) => {
        await session.append(entryOf(messages[at % messages.length]), FLUSH);
        if (session.context.tokens < 0 || (await session.compactWhenDue()) !== undefined)
          throw new Error("Not due.");
      };
      await medianTime(WARM_UP, step);
      return { ms: await medianTime(STEPS, step) };
    }),

  plan: ({ path, settings }) =>
    using(openEngine(path), async (session) => ({
      ms: await medianTime(20, () => session.planCompaction({ settings }).eligible),
    })),

  collect: ({ path, from, to }) =>
    using(openToRead(path), async ({ tree }) => {
      const { collectEntriesForBranchSummary } = await loadBranchSummary();
      const first = await timed(() => collectEntriesForBranchSummary(tree, from, to));
      const ms = await medianTime(20, () => collectEntriesForBranchSummary(tree, from, to));
      return { ms, first: first.ms, entries: first.result.entries.length };
    }),

  append: ({ folder, messages, batch, count }) =>
    using(newSession(folder), async (session) => {
      const batches = Array.from({ length: count }, (_, at) => batchOf(messages, at, batch));
      return { ms: await medianTime(count, (at) => session.append(batches[at].map(entryOf), FLUSH)) };
    }),

  /** Appends prompts, with or without the search for rules. */
  prompt: ({ folder, prompts, rules, count }) =>
    using(newSession(folder, { rules }), async (session) => ({
      ms: await medianTime(count, (at) => session.append(entryOf(prompts[at % prompts.length]), FLUSH)),
    })),

  /**
   * States a rule in each of the prompts 2 to 30, compacts five times, and counts the rules that the model still reads.
   */
  rulesKept({ folder, said, rules }) {
    const given = { rules, compaction: { contextWindow: 1e6, keepRecentTokens: 8_000 } };
    return using(newSession(folder, given), async (session) => {
      for (let prompt = 1; prompt <= 60; prompt++) {
        const rule = prompt % 2 === 0 && prompt <= 30 ? `${said[prompt / 2 - 1]}` : "";
        await session.appendMessages([
          { role: "user", content: `Go on with part ${prompt}.\n${rule}\nCheck its figures.` },
          { role: "assistant", content: `Part ${prompt} is checked. ${"figure ".repeat(480)}` },
        ]);
        if (prompt % 12 === 0) await session.compact();
      }
      const { messages, tokens } = session.context;
      const texts = messages.map(sessionTree.messageText).join("\n");
      const [read = ""] = /<rules>[\s\S]*<\/rules>/.exec(texts) ?? [];
      return { kept: said.filter((rule) => read.includes(rule.replace(/\.$/, ""))).length, tokens };
    });
  },

  /** Appends a message and builds the body of the request that ends with it. */
  request: ({ folder, messages, before, count }) =>
    using(newSession(folder), async (session) => {
      await session.append(messages.slice(0, before).map(entryOf), FLUSH);
      const writer = new sessionTree.RequestWriter();
      const options = {
        format: sessionTree.anthropicFormat,
        model: { provider: "anthropic", modelId: "model" },
      };
      const ms = await medianTime(count, async (at) => {
        await session.append(entryOf(messages[before + at]), FLUSH);
        return writer.write(sessionTree.buildRequest(session.context, options));
      });
      return { ms };
    }),

  sync: ({ folder, messages, callers, rounds }) =>
    using(newSession(folder), async (session) => {
      const append = (message) => session.append(entryOf(message), { durability: "fsync" });
      return {
        ms: await medianTime(rounds, (at) => Promise.all(batchOf(messages, at, callers).map(append))),
      };
    }),

  /**
   * Copies a path to a new session. `synced` is the time spent waiting for the disk. The file is removed, so that all
   * contenders have the same free space.
   */
  async fork({ path, leaf, folder }) {
    let synced = 0;
    const fsync = async (fd) => {
      const start = performance.now();
      await nodeFileCalls.fsync(fd);
      synced += performance.now() - start;
    };
    const store = sessionTreeNode.fileStore({ home: folder, calls: { ...nodeFileCalls, fsync } });
    return using(openEngine(path, { mode: "read", store }), async (session) => {
      session.tree;
      const out = join(folder, `fork-${counter++}.jsonl`);
      const { ms, result } = await timed(() => session.fork(leaf, { out }));
      rmSync(result.file);
      return { ms, synced, unsynced: ms - synced };
    });
  },

  async list({ folder, home, first = Number.POSITIVE_INFINITY }) {
    const { listSessions } = await loadEngine();
    const { ms, result } = await timed(async () => {
      let count = 0;
      for await (const _ of listSessions({ folder, home })) if (++count >= first) break;
      return count;
    });
    return { ms, sessions: result };
  },

  async search({ files, query }) {
    const { searchSessions } = await loadEngine();
    const { ms, result } = await timed(async () => {
      let hits = 0;
      for await (const _ of searchSessions(query, { files })) hits++;
      return hits;
    });
    return { ms, hits: result };
  },

  /** Work before every request and after every append. */
  decide: ({ path, message }) =>
    using(openEngine(path), async (session) => {
      const judge = await medianTime(200, () => session.compactWhenDue());
      await session.append(entryOf(message));
      const estimated = () => sessionTree.estimateTokens(message) + session.context.tokens;
      return { judge, estimate: await medianTime(200, estimated) };
    }),

  prune: ({ path, count }) =>
    using(openToRead(path), async ({ context }) => {
      const messages = context.messages.slice(-count);
      const budget = context.tokens / 3;
      const { HistoryPruner } = await loadPolicies();
      const prune = () => HistoryPruner.prune(messages, budget).kept.length;
      await medianTime(5, prune);
      return { ms: await medianTime(20, prune), messages: messages.length };
    }),

  /** One turn after this many messages: the prompt and its answer, each written with durability `flush`. */
  turns: ({ folder, lengths, message, answer }) =>
    using(newSession(folder), async (session) => {
      const curve = [];
      const turn = async () => {
        await session.append(entryOf(message));
        await session.append(entryOf(answer));
        return session.context;
      };
      for (let at = 0; at < 4; at++) await turn();
      for (const length of lengths) {
        const missing = length - session.context.messages.length;
        const pair = [entryOf(message), entryOf(answer)];
        if (missing > 0) await session.append(Array.from({ length: missing }, (_, at) => pair[at % 2]));
        const before = (await session.log.load()).size;
        const turns = 20;
        const ms = await medianTime(turns, turn);
        curve.push({ x: length, ms, bytes: ((await session.log.load()).size - before) / turns });
      }
      return { curve };
    }),

  /** Many sessions in one process at the same time: each is created and takes its turns. */
  async server({ folder, address, sessions, turns, message, answer }) {
    const engine = await loadEngine();
    const store = address ? await engine.openStore(address) : undefined;
    const place = { cwd: "/", compaction, ...(store ? { store } : { home: folder }) };
    const before = heldBytes();
    const open = [];
    const creates = await timesAtOnce(sessions, 1, async (at) => {
      open[at] = await engine.createSession({ ...place, id: `user${at}` });
    });
    const said = await timesAtOnce(sessions, turns, async (at) => {
      await open[at].append(entryOf(message));
      await open[at].append(entryOf(answer));
    });
    const kilobytes = (heldBytes() - before) / sessions / 1_000;
    for (const session of open) await session.close();
    await store?.close();
    return {
      createP99: percentile(creates.times, 99),
      turnP99: percentile(said.times, 99),
      turnsPerSecond: (sessions * turns * 1_000) / said.ms,
      kilobytes,
    };
  },
};

function bufferBytes() {
  globalThis.gc();
  return process.memoryUsage().arrayBuffers;
}

function heldBytes() {
  globalThis.gc();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
