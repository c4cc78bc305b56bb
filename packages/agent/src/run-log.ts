import type { Session } from "@espalier/engine";
import { type Entry, leaf, type NewEntry } from "@espalier/session-tree";
import { AgentError } from "./agent-error.ts";
import { isOnLeafPath, isOutOfSight } from "./on-leaf-path.ts";

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
    const { core } = this.#session;
    const place = this.#place;
    if (place && isOutOfSight(core, place)) await core.load();
    const isHere = !place || isOnLeafPath(core, place);
    const { leafId } = core;
    const stay = leaf.of({ parentId: leafId, targetId: leafId });
    const entries = isHere ? drafts : [{ ...first, parentId: place ?? null }, ...rest, stay];
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
}
