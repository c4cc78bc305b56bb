// Separate from session-tree.ts: one checks kinds, the other appends entries.
import { EspalierError } from "@espalier/jsonl-stream";
import type { BaseEntry, EntryKind } from "./entry.ts";
import { adopted, kindCode } from "./kinds.ts";

/**
 * Kinds that were registered for one session, in addition to those of the format. A registered kind defines the
 * messages, the problem, the durability, the name and the line of its entries. It cannot move the leaf to another entry,
 * hide or edit entries, or change settings: a reader without the kind must find the same leaf and the same path.
 */
export class OwnKinds {
  readonly #byType = new Map<string, EntryKind>();
  readonly #given = new Set<EntryKind>();

  /**
   * Registers a kind. A second call with the same kind does nothing.
   * @throws EspalierError `bad-kind` for an invalid kind, `exists` for a type that another kind has
   */
  add(kind: EntryKind): void {
    refuseKind(kind);
    if (this.#given.has(kind)) return;
    if (this.#byType.has(kind.type) || kindCode(kind.type) !== 0) {
      const message = `A kind of entry ${JSON.stringify(kind.type)} already exists; give yours another type, such as "<your extension>.${kind.type}".`;
      throw new EspalierError("exists", message);
    }
    const { draw } = kind;
    this.#byType.set(kind.type, {
      ...kind,
      problem: (entry) => problemOf(kind, entry),
      ...(draw ? { draw: (entry) => problemOf(kind, entry) ?? draw(entry) } : {}),
    });
    this.#given.add(kind);
  }

  /** Sets the kind of an entry when a kind is registered for its type. Returns the same entry. */
  adopt<E extends BaseEntry>(entry: E): E {
    const kind = this.#byType.get(entry.type);
    if (kind) adopted.set(entry, kind);
    return entry;
  }
}

/** Behaviour that changes which entries a reader finds on a path. */
const OF_THE_FORMAT = ["firstKept", "edit", "settings", "mayName", "leafTarget"] as const;

function refuseKind(kind: EntryKind): void {
  const refuse = (problem: string) => {
    const type = JSON.stringify((kind as Partial<EntryKind> | null)?.type);
    return new EspalierError("bad-kind", `The kind of entry ${type} cannot be registered: ${problem}.`);
  };
  if (typeof kind !== "object" || kind === null || typeof kind.type !== "string" || kind.type === "")
    throw refuse("it is not a value of `defineEntry` with a type");
  if (kind.type === "session") throw refuse("this type is that of a header");
  if (!kind.movesLeaf)
    throw refuse("`movesLeaf` is not true, and a reader without the kind would find another leaf");
  if (typeof (kind.title ?? "") !== "string") throw refuse("`title` is not text");
  const denied = OF_THE_FORMAT.filter((key) => kind[key] !== undefined);
  if (denied.length > 0)
    throw refuse(`it has ${denied.join(", ")}, and a reader without the kind would read another path`);
}

/**
 * Returns the problem of an entry of a registered kind: the problem that the kind returns, a function of the kind that
 * throws, or a result of `toMessages` or `draw` of a wrong type. Undefined when there is none.
 */
function problemOf(kind: EntryKind, entry: BaseEntry): string | undefined {
  try {
    const problem = kind.problem?.(entry);
    if (problem !== undefined) return problem;
    const said: unknown = kind.toMessages?.(entry) ?? [];
    const isSound = Array.isArray(said) && said.every((one) => typeof one?.role === "string");
    if (!isSound) return "`toMessages` of its kind gives no list of messages";
    const drawn: unknown = kind.draw?.(entry) ?? "";
    return typeof drawn === "string" ? undefined : "`draw` of its kind gives no text";
  } catch (error) {
    return `its kind fails on it (${error instanceof Error ? error.message : String(error)})`;
  }
}
