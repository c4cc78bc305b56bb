// The Pi coding agent, through its modules, since its command starts much more than a session.
import { rmSync } from "node:fs";
import { medianTime, peakMegabytes, timed } from "../lib/bench.mjs";

const dist = new URL("../node_modules/@earendil-works/pi-coding-agent/dist/core/", import.meta.url);
const { SessionManager } = await import(new URL("session-manager.js", dist).href);
const compaction = await import(new URL("compaction/compaction.js", dist).href);
const summaries = await import(new URL("compaction/branch-summarization.js", dist).href);

export const tasks = {
  async open({ path }) {
    const { ms, result } = await timed(() => SessionManager.open(path).buildSessionContext());
    return { ms, messages: result.messages.length, peak: peakMegabytes() };
  },

  /** Pi's open reads the whole file, which is the same work as an index. */
  async index({ path }) {
    const { ms } = await timed(() => SessionManager.open(path));
    return { ms, peak: peakMegabytes() };
  },

  async oldLeaf({ path, id }) {
    const first = await timed(() => {
      const session = SessionManager.open(path);
      session.branch(id);
      return session.buildSessionContext();
    });
    return { first: first.ms, messages: first.result.messages.length };
  },

  async step({ path, messages, steps }) {
    const session = SessionManager.open(path);
    const settings = { enabled: true, reserveTokens: 16_384, keepRecentTokens: 20_000 };
    const ms = await medianTime(steps, (at) => {
      session.appendMessage(messages[at % messages.length]);
      const context = session.buildSessionContext();
      const { tokens } = compaction.estimateContextTokens(context.messages);
      return compaction.shouldCompact(tokens, 1e9, settings);
    });
    return { ms };
  },

  async plan({ path, settings }) {
    const session = SessionManager.open(path);
    const given = { enabled: true, reserveTokens: 16_384, ...settings };
    return { ms: (await timed(() => compaction.prepareCompaction(session.getBranch(), given))).ms };
  },

  async collect({ path, from, to }) {
    const session = SessionManager.open(path);
    const collect = () => summaries.collectEntriesForBranchSummary(session, from, to);
    const { ms, result } = await timed(collect);
    return { ms, entries: result.entries.length };
  },

  async append({ folder, messages, batch, count }) {
    const session = SessionManager.create("/", folder);
    const first = messages.find(({ role }) => role === "assistant");
    session.appendMessage(first);
    const appendBatch = (at) => {
      for (let index = 0; index < batch; index++)
        session.appendMessage(messages[(at * batch + index) % messages.length]);
    };
    return { ms: await medianTime(count, appendBatch) };
  },

  /** Pi's agent has the messages in memory, so making JSON of them is its minimum for a request. */
  async request({ folder, messages, before, count }) {
    const session = SessionManager.create("/", folder);
    const said = messages.slice(0, before);
    for (const message of said) session.appendMessage(message);
    const ms = await medianTime(count, (at) => {
      said.push(messages[before + at]);
      session.appendMessage(said.at(-1));
      return JSON.stringify({ messages: said });
    });
    return { ms };
  },

  async fork({ path, leaf, folder }) {
    const session = SessionManager.open(path, folder);
    const { ms, result } = await timed(() => session.createBranchedSession(leaf));
    rmSync(result);
    return { ms };
  },

  async list({ folder }) {
    const { ms, result } = await timed(() => SessionManager.list("/", folder));
    return { ms, sessions: result.length };
  },
};
