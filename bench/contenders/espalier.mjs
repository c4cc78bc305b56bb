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

  /** Opens a session and navigates to its beginning. */
  async leave({ path }) {
    const session = await openEngine(path);
    const { ms } = await timed(() => session.navigate(null));
    const { length } = session.context.messages;
    await session.close();
    return { ms, messages: length, peak: peakMegabytes() };
  },

  /** Returns the positions of the lines in the context's window, for a contender that reads only these lines. */
  async spans({ path }) {
    const session = await openToRead(path);
    const { tree } = session;
    const spans = session.window.entries.map(({ id }) => {
      const row = tree.row(id);
      return [tree.index.offset(row), tree.index.lineLength(row)];
    });
    await session.close();
    return { spans };
  },

  /** Reads the whole tree (ids, parents, types, offsets, all branches), without texts. */
  async index({ path, withContext = false }) {
    const session = await openToRead(path);
    const { ms, result } = await timed(() => session.tree);
    if (withContext && session.context.messages.length === 0) throw new Error("The context is empty.");
    const peak = peakMegabytes();
    const { length } = result;
    const { byteLength } = result.index;
    await session.close();
    return { ms, entries: length, bytesPerEntry: byteLength / length, peak };
  },

  /** Explains each break of the prompt cache over a whole session. */
  async cache({ path }) {
    const { cacheLedger } = await loadEngine();
    const session = await openToRead(path);
    const { tree } = session;
    const { ms, result } = await timed(() => cacheLedger(tree));
    await session.close();
    return { ms, calls: result.calls.length, breaks: result.breaks.length };
  },

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
  async oldLeaf({ path, id }) {
    const session = await openToRead(path);
    const first = await timed(() => session.contextAt(id));
    const again = await timed(() => session.contextAt(id));
    const { leafId } = session;
    const newest = await medianTime(5, () => session.contextAt(leafId));
    await session.close();
    return { first: first.ms, again: again.ms, newest, messages: first.result.messages.length };
  },

  /** One step of a running agent: append, context, tokens, policy. */
  async step({ path, messages }) {
    const session = await openEngine(path);
    const step = async (at) => {
      await session.append(entryOf(messages[at % messages.length]), FLUSH);
      if (session.context.tokens < 0 || (await session.compactWhenDue()) !== undefined)
        throw new Error("Not due.");
    };
    await medianTime(WARM_UP, step);
    const ms = await medianTime(STEPS, step);
    await session.close();
    return { ms };
  },

  async plan({ path, settings }) {
    const session = await openEngine(path);
    const ms = await medianTime(20, () => session.planCompaction({ settings }).eligible);
    await session.close();
    return { ms };
  },

  async collect({ path, from, to }) {
    const session = await openToRead(path);
    const { tree } = session;
    const { collectEntriesForBranchSummary } = await loadBranchSummary();
    const first = await timed(() => collectEntriesForBranchSummary(tree, from, to));
    const ms = await medianTime(20, () => collectEntriesForBranchSummary(tree, from, to));
    await session.close();
    return { ms, first: first.ms, entries: first.result.entries.length };
  },

  async append({ folder, messages, batch, count }) {
    const session = await newSession(folder);
    const batches = Array.from({ length: count }, (_, at) => batchOf(messages, at, batch));
    const ms = await medianTime(count, (at) => session.append(batches[at].map(entryOf), FLUSH));
    await session.close();
    return { ms };
  },

  /** Appends prompts, with or without the search for rules. */
  async prompt({ folder, prompts, rules, count }) {
    const session = await newSession(folder, { rules });
    const ms = await medianTime(count, (at) => session.append(entryOf(prompts[at % prompts.length]), FLUSH));
    await session.close();
    return { ms };
  },

  /**
   * States a rule in each of the prompts 2 to 30, compacts five times, and counts the rules that the model still reads.
   */
  async rulesKept({ folder, said, rules }) {
    const session = await newSession(folder, {
      rules,
      compaction: { contextWindow: 1e6, keepRecentTokens: 8_000 },
    });
    for (let prompt = 1; prompt <= 60; prompt++) {
      const rule = prompt % 2 === 0 && prompt <= 30 ? `${said[prompt / 2 - 1]}` : "";
      await session.appendMessages([
        { role: "user", content: `Go on with part ${prompt}.\n${rule}\nCheck its figures.` },
        { role: "assistant", content: `Part ${prompt} is checked. ${"figure ".repeat(480)}` },
      ]);
      if (prompt % 12 === 0) await session.compact();
    }
    const texts = session.context.messages.map(sessionTree.messageText).join("\n");
    const [read = ""] = /<rules>[\s\S]*<\/rules>/.exec(texts) ?? [];
    const { tokens } = session.context;
    await session.close();
    return { kept: said.filter((rule) => read.includes(rule.replace(/\.$/, ""))).length, tokens };
  },

  /** Appends a message and builds the body of the request that ends with it. */
  async request({ folder, messages, before, count }) {
    const session = await newSession(folder);
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
    await session.close();
    return { ms };
  },

  async sync({ folder, messages, callers, rounds }) {
    const session = await newSession(folder);
    const options = { durability: "fsync" };
    const ms = await medianTime(rounds, (at) =>
      Promise.all(batchOf(messages, at, callers).map((message) => session.append(entryOf(message), options))),
    );
    await session.close();
    return { ms };
  },

  /**
   * Copies a path to a new session. `synced` is the time spent waiting for the disk. The file is removed, so that all
   * contenders have the same free space.
   */
  async fork({ path, leaf, folder }) {
    let synced = 0;
    const fsyncSync = (fd) => {
      const start = performance.now();
      nodeFileCalls.fsyncSync(fd);
      synced += performance.now() - start;
    };
    const store = sessionTreeNode.fileStore({ home: folder, calls: { ...nodeFileCalls, fsyncSync } });
    const session = await openEngine(path, { mode: "read", store });
    session.tree;
    const { ms, result } = await timed(() =>
      session.fork(leaf, { out: join(folder, `fork-${counter++}.jsonl`) }),
    );
    await session.close();
    rmSync(result.file);
    return { ms, synced, unsynced: ms - synced };
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
  async decide({ path, message }) {
    const session = await openEngine(path);
    const judge = await medianTime(200, () => session.compactWhenDue());
    await session.append(entryOf(message));
    const estimate = await medianTime(
      200,
      () => sessionTree.estimateTokens(message) + session.context.tokens,
    );
    await session.close();
    return { judge, estimate };
  },

  async prune({ path, count }) {
    const session = await openToRead(path);
    const messages = session.context.messages.slice(-count);
    const budget = session.context.tokens / 3;
    await session.close();
    const { HistoryPruner } = await loadPolicies();
    const prune = () => HistoryPruner.prune(messages, budget).kept.length;
    await medianTime(5, prune);
    return { ms: await medianTime(20, prune), messages: messages.length };
  },

  /** One turn after this many messages: the prompt and its answer, each written with durability `flush`. */
  async turns({ folder, lengths, message, answer }) {
    const session = await newSession(folder);
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
    await session.close();
    return { curve };
  },

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

function heldBytes() {
  globalThis.gc();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
