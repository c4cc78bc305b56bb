import type { ContextMessage, UserContent } from "./message.ts";

/**
 * An entry is one line of a session: never changed, never removed. What it carries beyond these four fields depends
 * on its `type`; an entry whose type nobody here knows is kept as it is.
 */
export interface Entry {
  /** What kind of entry it is, such as `message`. */
  type: string;
  /** Unique in its session; ours have 12 letters and digits (71 bits). */
  id: string;
  /** The entry this one follows; null for a root. */
  parentId: string | null;
  /** ISO 8601, UTC. */
  timestamp: string;
}

/** The fields that the log fills in when they are left out. */
export type FilledIn = "id" | "parentId" | "timestamp";

/** An entry to append: `id`, `parentId` and `timestamp` may be left out. */
export type NewEntry<E extends Entry = Entry> = Omit<E, FilledIn> & Partial<Pick<E, FilledIn>>;

/** A change of what an earlier entry says from here on: null leaves it out. */
export interface ContextEdit {
  /** The entry whose say changes, above the edit on its path. */
  targetId: string;
  /** Null leaves it out; else the content that stands in the place of its own, under the same role. */
  replacement: null | { content: UserContent };
}

/** The model and the thinking level that are in force somewhere on a path. */
export interface Settings {
  /** Null where nothing on the path names one. */
  model: { provider: string; modelId: string } | null;
  /** `off` where nothing on the path names one. */
  thinkingLevel: string;
}

/** What a kind of entry says of itself; everything but `movesLeaf` is optional. */
export interface EntryBehaviour<E extends Entry> {
  /** False for entries that stand beside the conversation (labels, names, usage): appending one leaves the leaf. */
  movesLeaf: boolean;
  /** What the entry says to a model, before edits. Nothing by default. */
  toMessages?(entry: E): ContextMessage[];
  /** The first entry that stays visible: what stands before it on the path is hidden. The own id keeps nothing. */
  firstKept?(entry: E): string;
  /** What the entry changes about another one. */
  edit?(entry: E): ContextEdit;
  /** The settings that hold from this entry on; an absent key leaves what held before. */
  settings?(entry: E): Partial<Settings>;
  /** The settings that entries of this kind may name: who looks for one far up a path reads no others. Default: none. */
  mayName?: readonly (keyof Settings)[];
  /** For an entry that sets the leaf elsewhere: where to. */
  leafTarget?(entry: E): string | null;
  /**
   * What an append of this entry survives unless the caller says otherwise. `flush` by default; what a person or a
   * provider cannot give again is `fsync`.
   */
  durability?(entry: E): "flush" | "fsync";
  /** One line that stands for an entry where entries are listed. Default: its fields. */
  draw?(entry: E): string;
  /** What is wrong with an entry of this type, in one clause ("`summary` is not text"); undefined when it is sound. */
  problem?(entry: E): string | undefined;
}

/** A kind of entry: makes them, recognises them, and answers for them. */
export interface EntryKind<E extends Entry = Entry> extends EntryBehaviour<E> {
  /** What stands in the `type` of its entries. */
  readonly type: E["type"];
  /**
   * Returns whether an entry is of this kind and sound, so that its fields are what `E` says. A line of the same type
   * with a `problem` is not: it may lack anything.
   */
  is(entry: Entry): entry is E;
  /** A new entry of this kind; the log gives it an id, a parent and a time. */
  of(fields: Omit<E, FilledIn | "type"> & Partial<Pick<E, FilledIn>>): NewEntry<E>;
}

/** Makes a kind of entry out of its type and what it says of itself. */
export function defineEntry<E extends Entry>(type: E["type"], behaviour: EntryBehaviour<E>): EntryKind<E> {
  return {
    ...behaviour,
    type,
    is: (entry): entry is E => entry.type === type && behaviour.problem?.(entry as E) === undefined,
    of: (fields) => ({ type, ...fields }) as unknown as NewEntry<E>,
  };
}
