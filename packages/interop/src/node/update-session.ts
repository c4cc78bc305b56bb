import { type Entry, readSessionLine, type SessionLog, SessionTree, type Tree } from "@espalier/session-tree";
import type { KnownEntry, SessionDraft } from "../import-draft.ts";
import { type DraftWriting, draftLine, leafBehind, leafLine } from "./draft-lines.ts";

/** Characters of lines that are appended at a time. */
const BATCH = 1 << 20;

/**
 * Appends the entries that are not there yet, and returns how many lines that were. The leaf follows the source, unless
 * it stands at an entry of its own: somebody went on with the session here.
 */
export async function updateSession(
  draft: SessionDraft,
  log: SessionLog,
  { redactor, summaries }: DraftWriting,
): Promise<number> {
  const session = await SessionTree.open(log);
  const tree = await session.load();
  const before = session.leafId;
  const appender = new Appender(log);
  /** Times of the entries that are new, by id. */
  const added = new Map<string, string>();
  let standsInSource = before === null;
  let leafId = before;
  const options = { known: (id: string) => knownEntry(tree, id), ...(summaries ? { summaries } : {}) };
  for (const item of draft.entries(options)) {
    const entry = item instanceof Uint8Array ? entryIn(item) : item;
    if (!entry) continue;
    standsInSource ||= entry.id === before;
    if (tree.has(entry.id) || added.has(entry.id)) continue;
    added.set(entry.id, entry.timestamp);
    leafId = leafBehind(entry, leafId);
    await appender.add(item instanceof Uint8Array ? decoder.decode(item) : draftLine(item, draft, redactor));
  }
  const timeOf = (id: string | null | undefined) =>
    added.get(id ?? "") ?? tree.getEntry(id ?? "")?.timestamp ?? "";
  // Several files can tell of one session: the newest says where it stands.
  const isNews = () => timeOf(draft.leafId) >= timeOf(before) && draft.isElsewhere(before ?? "");
  const target = standsInSource || isNews() ? draft.leafId : before;
  // Copied lines say themselves where they stand.
  if (added.size > 0 && target !== undefined && target !== leafId) await appender.add(leafLine(target));
  await appender.flush();
  return appender.lines;
}

const decoder = new TextDecoder();

/** What is there of an entry. */
function knownEntry(tree: Tree, id: string): KnownEntry | undefined {
  const entry = tree.getEntry(id) as
    | (Entry & { sourceLines?: unknown; message?: { usage?: unknown } })
    | undefined;
  if (!entry) return undefined;
  const { sourceLines, message } = entry;
  return { lines: typeof sourceLines === "number" ? sourceLines : 1, isBilled: message?.usage !== undefined };
}

function entryIn(bytes: Uint8Array): Entry | undefined {
  const line = readSessionLine(bytes);
  return line.is === "entry" ? line.entry : undefined;
}

/** Appends lines in batches. Of one that was cut by a crash a beginning is there, and the next import adds the rest. */
class Appender {
  lines = 0;
  readonly #log: SessionLog;
  #waiting: string[] = [];
  #size = 0;

  constructor(log: SessionLog) {
    this.#log = log;
  }

  async add(line: string): Promise<void> {
    this.lines++;
    this.#waiting.push(line);
    this.#size += line.length;
    if (this.#size >= BATCH) await this.flush();
  }

  async flush(): Promise<void> {
    if (this.#waiting.length === 0) return;
    const lines = this.#waiting;
    this.#waiting = [];
    this.#size = 0;
    await this.#log.append(lines, { durability: "fsync" });
  }
}
