import type { Session } from "@espalier/engine";
import { type Entry, isOnPath, leaf, type NewEntry, type PathWindow } from "@espalier/session-tree";
import { AgentError } from "./agent-error.ts";

const isInWindow = ({ entries }: PathWindow, wanted: string): boolean =>
  entries.some(({ id }) => id === wanted);

/** What a run writes: each entry under the one before, whatever others append between. */
export class RunLog {
  readonly #session: Session;
  readonly #tell: (entry: Entry) => void;
  /** The newest entry of the run; undefined while none is going on. */
  #place: string | null | undefined;

  constructor(session: Session, tell: (entry: Entry) => void) {
    this.#session = session;
    this.#tell = tell;
  }

  /** From here on, entries belong under the leaf as it is now. */
  begin(): void {
    this.#place = this.#session.leafId;
  }

  end(): void {
    this.#place = undefined;
  }

  /**
   * Where somebody went elsewhere meanwhile, the entries go to where the run was, and nobody is dragged back there.
   * @throws AgentError `moved` in that case, when the entries are in the log; SessionTreeError
   */
  async append(drafts: readonly NewEntry[], durability?: "fsync"): Promise<Entry[]> {
    const [first, ...rest] = drafts;
    if (!first) return [];
    if (this.#isOutOfSight()) await this.#session.core.load();
    const isHere = this.#isOnPath();
    const { leafId } = this.#session;
    const stay = leaf.of({ parentId: leafId, targetId: leafId });
    const entries = isHere ? drafts : [{ ...first, parentId: this.#place ?? null }, ...rest, stay];
    const appended = await this.#session.append(entries, durability ? { durability } : {});
    for (const entry of appended) this.#tell(entry);
    if (!isHere) {
      const message =
        "Somebody went to another place of the session during the run; what came is where it was asked for. Go back there to go on.";
      throw new AgentError("moved", message);
    }
    if (this.#place !== undefined) this.#place = appended.at(-1)!.id;
    return appended;
  }

  /** Whether only the whole tree can tell: the run may stand behind a compaction that keeps nothing of it. */
  #isOutOfSight(): boolean {
    const { window } = this.#session.core;
    return !!this.#place && !window.complete && !isInWindow(window, this.#place);
  }

  #isOnPath(): boolean {
    const { core, leafId } = this.#session;
    const place = this.#place;
    if (!place || isInWindow(core.window, place)) return true;
    if (core.window.complete || leafId === null) return false;
    return isOnPath(core.tree, core.tree.row(place), core.tree.row(leafId));
  }
}
