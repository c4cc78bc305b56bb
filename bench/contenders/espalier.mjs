// This project, built. Each task answers with what it measured.
import { dirname } from "node:path";
import * as project from "../.work/espalier.mjs";
import { medianTime, peakMegabytes, timed } from "../lib/timed.mjs";

const { sessionTree, sessionTreeNode } = project;

const openTree = async (path, mode = "read", leafId) =>
  sessionTree.SessionTree.open(
    await sessionTreeNode.fileStore({ home: dirname(path) }).open(path, mode),
    leafId,
  );

export const tasks = {
  /** Opens a session and builds the context at its leaf. */
  async open({ path }) {
    let session;
    const { ms, result } = await timed(async () => {
      session = await openTree(path);
      return session.context;
    });
    await session.close();
    return { ms, messages: result.messages.length, peak: peakMegabytes() };
  },

  /** Where the lines of the context's window stand, as what reading exactly them needs. */
  async spans({ path }) {
    const session = await openTree(path);
    const { tree } = session;
    const spans = session.window.entries.map(({ id }) => {
      const row = tree.row(id);
      return [tree.index.offset(row), tree.index.lineLength(row)];
    });
    await session.close();
    return { spans };
  },

  /** Reads the whole tree: ids, parents, types, offsets, all branches; no texts. */
  async index({ path }) {
    const session = await openTree(path);
    const { ms, result } = await timed(() => session.tree);
    const peak = peakMegabytes();
    const { length } = result;
    const { byteLength } = result.index;
    await session.close();
    return { ms, entries: length, bytesPerEntry: byteLength / length, peak };
  },

  /** The context at an old leaf: the first time, and the second. */
  async oldLeaf({ path, id }) {
    const session = await openTree(path);
    const first = await timed(() => session.contextAt(id));
    const again = await timed(() => session.contextAt(id));
    const { leafId } = session;
    const newest = await medianTime(5, () => session.contextAt(leafId));
    await session.close();
    return { first: first.ms, again: again.ms, newest, messages: first.result.messages.length };
  },
};
