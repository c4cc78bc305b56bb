// Separate from pi.ts: it writes nothing.
// The reading half of Pi's `SessionManager`: entries, paths, labels, contexts, the leaf.
import { EspalierError } from "@espalier/jsonl-stream";
import {
  type Entry,
  FORMAT_VERSION,
  kindOf,
  label,
  labelsInForce,
  pathRows,
  type SessionHeader,
  sessionName,
  Tree,
} from "@espalier/session-tree";
import {
  buildContextEntries,
  buildSessionContext,
  buildSessionProjection,
  type PiSessionContext,
  type SessionProjection,
} from "./compaction.ts";
import type { Lines } from "./files.ts";

/** An entry with its children, oldest first, and its label. */
export interface SessionTreeNode {
  entry: Entry;
  children: SessionTreeNode[];
  label?: string;
  labelTimestamp?: string;
}

/** The entries of a session and a leaf. All reads are synchronous. */
export class SessionReader {
  #header!: SessionHeader;
  #tree!: Tree;
  /** Parsed entries by row. */
  #entries: Entry[] = [];
  /** Current labels by entry, in the order in which the entries were first labelled. */
  protected labels: ReadonlyMap<string, { label: string; timestamp: string }> = new Map();
  #leafId: string | null = null;

  /** The first line of the session. */
  getHeader(): SessionHeader {
    return this.#header;
  }

  /** The session's name; undefined if it has none. */
  getSessionName(): string | undefined {
    return sessionName(this.#tree)?.trim() || undefined;
  }

  /** The parent of the next entry; null before the first. */
  getLeafId(): string | null {
    return this.#leafId;
  }

  /** The entry of the leaf; undefined before the first. */
  getLeafEntry(): Entry | undefined {
    return this.#leafId === null ? undefined : this.getEntry(this.#leafId);
  }

  /** The entry with this id; undefined if there is none. */
  getEntry(id: string): Entry | undefined {
    return this.#entries[this.#tree.index.rowOf(id)];
  }

  /** Children of an entry, in file order; none for an unknown id. */
  getChildren(parentId: string): Entry[] {
    const row = this.#tree.index.rowOf(parentId);
    if (row < 0) return [];
    return this.#entries.filter((_, at) => this.#tree.index.parent(at) === row);
  }

  /** The label of an entry; undefined if it has none. */
  getLabel(id: string): string | undefined {
    return this.labels.get(id)?.label;
  }

  /** The path to an entry (default: the leaf), root first; empty for an unknown id. */
  getBranch(fromId?: string): Entry[] {
    const start = fromId ?? this.#leafId;
    const row = start === null ? -1 : this.#tree.index.rowOf(start);
    return pathRows(this.#tree, row).map((at) => this.#entries[at]!);
  }

  /** Entries of the context at the leaf, the newest compaction first. */
  buildContextEntries(): Entry[] {
    return buildContextEntries(this.getBranch());
  }

  /** The context at the leaf, with the entry of each message. */
  buildSessionProjection(): SessionProjection {
    return buildSessionProjection(this.getBranch(), this.#leafId);
  }

  /** The context at the leaf. */
  buildSessionContext(): PiSessionContext {
    return buildSessionContext(this.getBranch(), this.#leafId);
  }

  /** Number of entries. */
  getEntryCount(): number {
    return this.#entries.length;
  }

  /** All entries in file order, as a new list. Do not change the entries. */
  getEntries(): Entry[] {
    return [...this.#entries];
  }

  /** The roots with all entries below them. An entry whose parent is missing is a root. */
  getTree(): SessionTreeNode[] {
    const nodes = this.#entries.map((entry): SessionTreeNode => {
      const found = this.labels.get(entry.id);
      const named = found && { label: found.label, labelTimestamp: found.timestamp };
      return { entry, children: [], ...named };
    });
    const roots: SessionTreeNode[] = [];
    for (const [row, node] of nodes.entries()) {
      const parent = this.#tree.index.parent(row);
      (parent < 0 ? roots : nodes[parent]!.children).push(node);
    }
    const time = ({ entry }: SessionTreeNode) => Date.parse(entry.timestamp);
    for (const { children } of nodes) children.sort((a, b) => time(a) - time(b));
    return roots;
  }

  /**
   * Moves the leaf, so that the next append begins a branch. As in Pi, that append writes the move.
   * @throws EspalierError `unknown-entry`
   */
  branch(branchFromId: string): void {
    this.known(branchFromId);
    this.#leafId = branchFromId;
  }

  /** Moves the leaf before the first entry. */
  resetLeaf(): void {
    this.#leafId = null;
  }

  /**
   * Reads all entries of a log, and its leaf.
   *
   * @internal
   */
  protected readAll({ view, header }: Lines): void {
    this.#tree = new Tree(view);
    this.#header = { ...header, version: Math.max(FORMAT_VERSION, header.version) };
    this.#entries = [];
    this.labels = new Map();
    this.#takeRows();
    const last = this.#entries[this.#tree.lastRow];
    const target = last && kindOf(last).leafTarget?.(last);
    this.#leafId = target === undefined ? (last?.id ?? null) : target;
  }

  /**
   * Adds an entry that was just appended, and earlier entries of other managers of this process.
   *
   * @internal
   */
  protected takeIn({ view }: Lines, entry: Entry): void {
    this.#tree.takeIn(view);
    this.#tree.remember([entry]);
    this.#takeRows();
    this.#leafId = entry.id;
  }

  #takeRows(): void {
    const from = this.#entries.length;
    for (let row = from; row < this.#tree.length; row++) this.#entries.push(this.#tree.entryAt(row));
    if (this.#entries.slice(from).some((entry) => label.is(entry))) this.labels = labelsInForce(this.#tree);
  }

  /** @throws EspalierError `unknown-entry` */
  protected known(id: string): Entry {
    const entry = this.getEntry(id);
    if (entry) return entry;
    throw new EspalierError(
      "unknown-entry",
      `Entry ${id} not found in this session; getEntries() returns all entries.`,
    );
  }

  /** Returns whether an entry is on the path of the leaf. */
  protected isOnPath(id: string): boolean {
    return this.getBranch().some((entry) => entry.id === id);
  }
}

/** A path without its label entries. Entries and compactions that name a label entry name its neighbour instead. */
export function withoutLabels(path: readonly Entry[]): Entry[] {
  const kept: Entry[] = [];
  const successors = new Map<string, string>();
  let labels: string[] = [];
  for (const entry of path) {
    if (entry.type === label.type) {
      labels.push(entry.id);
      continue;
    }
    for (const id of labels) successors.set(id, entry.id);
    labels = [];
    const parentId = kept.at(-1)?.id ?? null;
    const first = (entry as { firstKeptEntryId?: string }).firstKeptEntryId;
    const moved = first === undefined ? undefined : successors.get(first);
    kept.push({ ...entry, parentId, ...(moved === undefined ? {} : { firstKeptEntryId: moved }) } as Entry);
  }
  return kept;
}
