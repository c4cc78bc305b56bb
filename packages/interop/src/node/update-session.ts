import {
  DAMAGED,
  type Entry,
  EntryScan,
  readSessionLine,
  type SessionLog,
  scanEntry,
} from "@espalier/session-tree";
import type { SessionDraft } from "../import-draft.ts";
import { ScratchArea } from "../scratch/scratch-area.ts";
import type { ScratchSpace } from "../scratch/scratch-space.ts";
import { AddedEntries } from "./added-entries.ts";
import { type DraftWriting, draftLine, leafBehind, leafLine } from "./draft-lines.ts";
import type { WrittenSession } from "./written-session.ts";

/** Characters of lines that are appended at a time. */
const BATCH = 1 << 20;

/** A session that grows. */
export interface Growing {
  log: SessionLog;
  /** What stands in it. */
  session: WrittenSession;
  scratch: ScratchSpace;
}

/**
 * Appends the entries that are not there yet, and returns how many lines that were. The leaf follows the source, unless
 * it stands at an entry of its own: somebody went on with the session here.
 */
export async function updateSession(
  draft: SessionDraft,
  { log, session, scratch }: Growing,
  { redactor, summaries }: DraftWriting,
): Promise<number> {
  const area = new ScratchArea(scratch);
  try {
    const before = session.leafId;
    const appender = new Appender(log);
    const added = new AddedEntries(area);
    let standsInSource = before === null;
    let leafId = before;
    const options = { known: (id: string) => session.known(id), ...(summaries ? { summaries } : {}) };
    for (const item of draft.entries(options)) {
      const entry = item instanceof Uint8Array ? entryIn(item) : item;
      if (!entry) continue;
      standsInSource ||= entry.id === before;
      if (session.has(entry.id) || added.has(entry.id)) continue;
      added.add(entry.id, timeIn(entry.timestamp));
      leafId = leafBehind(entry, leafId);
      await appender.add(
        item instanceof Uint8Array ? decoder.decode(item) : draftLine(item, draft, redactor),
      );
    }
    const timeOf = (id: string) => added.timeOf(id) ?? timeIn(session.timeOf(id));
    // Several files can tell of one session: the newest says where it stands.
    const isNews = () =>
      timeOf(draft.leafId ?? "") >= timeOf(before ?? "") && draft.isElsewhere(before ?? "");
    const target = standsInSource || isNews() ? draft.leafId : before;
    // Copied lines say themselves where they stand.
    if (added.length > 0 && target !== undefined && target !== leafId) await appender.add(leafLine(target));
    await appender.flush();
    return appender.lines;
  } finally {
    area.close();
  }
}

const decoder = new TextDecoder();

/** Epoch milliseconds; of what cannot be read: before everything. */
function timeIn(timestamp: string | undefined): number {
  const time = Date.parse(timestamp ?? "");
  return Number.isNaN(time) ? Number.NEGATIVE_INFINITY : time;
}

/** The entry in a copied line. One whose place alone can be read comes along: what follows it would be cut off without. */
function entryIn(bytes: Uint8Array): Entry | undefined {
  const line = readSessionLine(bytes);
  if (line.is === "entry") return line.entry;
  const scan = new EntryScan();
  if (line.is !== "corrupt" || !scanEntry(bytes, 0, bytes.length, scan)) return undefined;
  const id = decoder.decode(bytes.subarray(scan.idStart, scan.idEnd));
  return { type: DAMAGED, id, parentId: null, timestamp: "" };
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
