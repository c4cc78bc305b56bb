import type { ByteView } from "@espalier/jsonl-stream";
import { type SessionLog, SessionTreeError, Tree } from "@espalier/session-tree";
import { lineBehind, partView } from "./part-view.ts";
import type { Pause } from "./pause.ts";
import { type TreeModel, treeModel } from "./tree-model.ts";

/** Logs up to so many bytes are indexed before anything is shown: it takes as long as a glance. */
const SHORT = 4_000_000;

/** How much of the end of a longer log is shown while all of it is read. */
const END = 400_000;

/** Bytes that are indexed between two moments in which a key may be answered. */
const SLICE = 1_500_000;

/** A session that is read, as it is and as it grows. Changes nothing and takes no lease. */
export class SessionReader {
  readonly log: SessionLog;
  readonly #pause: Pause;
  #model: TreeModel | undefined;

  constructor(log: SessionLog, pause: Pause) {
    this.log = log;
    this.#pause = pause;
  }

  /** What is there of the session, as far as it was read. Throws before `begin`. */
  get model(): TreeModel {
    if (!this.#model) throw new Error(`${this.log.ref} was not read yet.`);
    return this.#model;
  }

  /** What can be shown at once: all of a short log, the end of a long one. */
  begin(): TreeModel {
    const view = this.#view();
    const from = view.size <= SHORT ? 0 : lineBehind(view, view.size - END);
    const isPartial = from > 0 && from < view.size;
    this.#model = treeModel(new Tree(isPartial ? partView(view, from, view.size) : view), { isPartial });
    return this.#model;
  }

  /** All of the session; lets others have their turn meanwhile. */
  async complete(): Promise<TreeModel> {
    if (this.#model && !this.#model.isPartial) return this.#model;
    const view = this.#view();
    const tree = new Tree(partView(view, 0, 0));
    for (let end = 0; end < view.size; ) {
      end = lineBehind(view, Math.min(view.size, end + SLICE));
      tree.takeIn(end < view.size ? partView(view, 0, end) : view);
      await this.#pause();
    }
    this.#model = treeModel(tree);
    return this.#model;
  }

  /** Finds out what every row is, so that no key has to wait for it. */
  async lookAhead(pause: Pause): Promise<void> {
    const { kinds, length } = this.model;
    for (let row = length - 1; row >= 0; row--) {
      kinds.of(row);
      if (row % 64 === 0) await pause();
    }
  }

  /**
   * Takes in what others appended. Undefined when there is nothing new.
   * @throws SessionTreeError `changed`, `not-found`, … when this is no longer the file that was opened
   */
  async refresh(): Promise<TreeModel | undefined> {
    await this.log.takeIn();
    const { tree, kinds, gists, isPartial } = this.model;
    const view = this.#view();
    if (isPartial || tree.view.size === view.size) return undefined;
    tree.takeIn(view);
    this.#model = treeModel(tree, { kinds, gists });
    return this.#model;
  }

  close(): Promise<void> {
    return this.log.close();
  }

  #view(): ByteView {
    const { view, ref } = this.log;
    if (!view) throw new SessionTreeError("not-loaded", `${ref} is not loaded yet; await load() first.`);
    return view;
  }
}

/** Whether a session has to be opened anew, because its file is another one by now. */
export const isReplaced = (error: unknown): boolean =>
  error instanceof SessionTreeError && REPLACED.has(error.code);

const REPLACED: ReadonlySet<string> = new Set(["changed", "removed", "shrunk", "not-found"]);
