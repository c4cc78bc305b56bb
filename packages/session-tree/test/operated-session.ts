import {
  type Entry,
  ForkLines,
  forkHeader,
  planFork,
  type SessionContext,
  type SessionHeader,
  type SessionStore,
  SessionTree,
} from "@espalier/session-tree";
import { entriesOf, inVain, type Operation, pick } from "./random-operations.ts";

/** What a session was right after an operation. */
export interface Moment {
  /** Bytes of its log then. */
  size: number;
  /** Whether the operation wrote any of them. */
  wrote: boolean;
  leafId: string | null;
  context: SessionContext;
}

const HEADER: SessionHeader = {
  type: "session",
  version: 3,
  id: "s1",
  timestamp: "2026-01-01T00:00:00.000Z",
  cwd: "/garden",
};

/** A session on which operations are carried out, by one or several writers, and what it was after each. */
export class OperatedSession {
  readonly moments: Moment[] = [];
  /** Refs of the forks that were made, and of what. */
  readonly forks: { ref: string; entryId: string; position: "at" | "before" }[] = [];
  /** What went wrong where something should have been refused. */
  readonly objections: string[] = [];
  readonly #store: SessionStore;
  readonly #writers: SessionTree[];

  private constructor(store: SessionStore, writers: SessionTree[]) {
    this.#store = store;
    this.#writers = writers;
  }

  static async create(store: SessionStore, writers: number): Promise<OperatedSession> {
    const { ref } = await store.create(HEADER);
    const open = () => store.open({ file: ref }, "write").then((log) => SessionTree.open(log));
    return new OperatedSession(store, await Promise.all(Array.from({ length: writers }, open)));
  }

  get session(): SessionTree {
    return this.#writers[0]!;
  }

  async bytes(): Promise<Uint8Array> {
    for (const writer of this.#writers) await writer.refresh();
    const view = await this.session.log.load();
    return view.read(0, view.size);
  }

  async carryOut(operation: Operation, writer = 0): Promise<void> {
    const at = writer % this.#writers.length;
    const session = this.#writers[at]!;
    await session.refresh();
    const before = (await session.log.load()).size;
    await this.#act(session, operation, at);
    const { log, leafId, context } = this.#writers[at]!;
    const { size } = await log.load();
    this.moments.push({ size, wrote: size > before, leafId, context: structuredClone(context) });
  }

  async #act(session: SessionTree, operation: Operation, at: number): Promise<void> {
    const ids = [...session.tree.ids()];
    const target =
      "target" in operation && operation.target !== null ? (pick(ids, operation.target) ?? null) : null;
    if (operation.does === "append") await session.append(entriesOf(session, operation));
    else if (operation.does === "move") await session.moveTo(target);
    else if (operation.does === "branch with summary")
      await session.branchWithSummary(target, operation.text);
    else if (operation.does === "compact") {
      const firstKept = pick(session.getBranch(), operation.firstKept)?.id;
      if (firstKept !== undefined)
        await session.appendCompaction(operation.text, firstKept, 1, { by: "test" });
    } else if (operation.does === "fork") {
      if (target !== null) await this.#fork(session, target, operation.position);
    } else if (operation.does === "reopen") {
      this.#writers[at] = await SessionTree.open(
        await this.#store.open({ file: session.log.ref }, "write"),
        session.leafId ?? undefined,
      );
    } else {
      const { draft, code } = inVain(session, operation.what);
      const before = { leafId: session.leafId, size: (await session.log.load()).size };
      const outcome: unknown = await session.append(draft).catch((error: unknown) => error);
      if ((outcome as { code?: string }).code !== code)
        this.objections.push(`${operation.what}: ${JSON.stringify(outcome)}`);
      const after = { leafId: session.leafId, size: (await session.log.load()).size };
      if (JSON.stringify(before) !== JSON.stringify(after))
        this.objections.push(`${operation.what} changed something`);
    }
  }

  async #fork(session: SessionTree, entryId: string, position: "at" | "before"): Promise<void> {
    const plan = planFork(session.tree, entryId, position);
    const header = {
      ...forkHeader(HEADER, session.log.ref, plan.leafId, "2026-01-02T00:00:00.000Z"),
      id: `f${this.forks.length}`,
    };
    const log = await this.#store.create(header, new ForkLines(session.tree, plan));
    this.forks.push({ ref: log.ref, entryId, position });
    const fork = await SessionTree.open(log);
    const expected: readonly Entry[] = session.getBranch(plan.leafId);
    if (fork.leafId !== plan.leafId)
      this.objections.push(`the fork's leaf is ${fork.leafId}, not ${plan.leafId}`);
    const same = JSON.stringify(fork.getBranch()) === JSON.stringify(expected);
    if (!same) this.objections.push("the fork's path is not the path it was made of");
    if (JSON.stringify(fork.context) !== JSON.stringify(session.contextAt(plan.leafId)))
      this.objections.push("the fork says something else to a model");
  }
}
