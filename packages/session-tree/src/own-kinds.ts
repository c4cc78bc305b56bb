import type { Entry, EntryKind } from "./entry.ts";
import { adoptEntry, kindCode } from "./entry-kinds.ts";
import { SessionTreeError } from "./session-tree-error.ts";

/**
 * Kinds that one session was given besides those of the format. They say what their entries tell the model, what is
 * wrong with one, how durable an append of it is, and how it is drawn. They cannot move the leaf, hide, edit or set
 * anything: a reader without them keeps the entry as data, and must find the same leaf and the same path.
 */
export class OwnKinds {
  readonly #byType = new Map<string, EntryKind>();
  readonly #given = new Set<EntryKind>();

  /** @throws SessionTreeError `bad-kind`, `exists` for a type that another kind answers for */
  add(kind: EntryKind): void {
    refuseKind(kind);
    if (this.#given.has(kind)) return;
    if (this.#byType.has(kind.type) || kindCode(kind.type) !== 0) {
      const message = `There is a kind of entry ${JSON.stringify(kind.type)} already; give yours another type, such as "<your extension>.${kind.type}".`;
      throw new SessionTreeError("exists", message);
    }
    const { draw } = kind;
    this.#byType.set(kind.type, {
      ...kind,
      problem: (entry) => problemOf(kind, entry),
      ...(draw ? { draw: (entry) => problemOf(kind, entry) ?? draw(entry) } : {}),
    });
    this.#given.add(kind);
  }

  /** Makes the session's own kind, if there is one, answer for an entry; returns the entry. */
  adopt(entry: Entry): Entry {
    const kind = this.#byType.get(entry.type);
    if (kind) adoptEntry(entry, kind);
    return entry;
  }
}

/** Behaviour that decides which entries a reader finds on a path. */
const OF_THE_FORMAT = ["firstKept", "edit", "settings", "mayName", "leafTarget"] as const;

function refuseKind(kind: EntryKind): void {
  const refuse = (problem: string) => {
    const type = JSON.stringify((kind as Partial<EntryKind> | null)?.type);
    return new SessionTreeError("bad-kind", `The kind of entry ${type} cannot be registered: ${problem}.`);
  };
  if (typeof kind !== "object" || kind === null || typeof kind.type !== "string" || kind.type === "")
    throw refuse("it is no value of `defineEntry` with a type");
  if (kind.type === "session") throw refuse("this type is that of a header");
  if (!kind.movesLeaf)
    throw refuse("`movesLeaf` is not true, and a reader without the kind would find another leaf");
  const denied = OF_THE_FORMAT.filter((key) => kind[key] !== undefined);
  if (denied.length > 0)
    throw refuse(`it has ${denied.join(", ")}, and a reader without the kind would read another path`);
}

/** What is wrong with an entry of a kind of one's own: what the kind says, or that the kind itself fails. */
function problemOf(kind: EntryKind, entry: Entry): string | undefined {
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
