import type { ByteView } from "@espalier/jsonl-stream";
import {
  FORMAT_VERSION,
  GrowingBytes,
  type LineAppendOptions,
  type LogAppend,
  type OpenMode,
  type PathWindow,
  readPathWindow,
  type SessionHeader,
  type SessionLog,
  SessionTreeError,
  type UpgradedLog,
  upgradeLog,
} from "@espalier/session-tree";
import { addLine } from "./add-line.ts";
import { appendLines } from "./append-lines.ts";
import type { Database } from "./database.ts";
import { fetchInto } from "./fetch-lines.ts";
import type { FoundSession } from "./found-session.ts";
import { gone } from "./insert-lines.ts";
import { type LineRow, rowOfLine } from "./line-row.ts";
import { asTroubleOfSession } from "./log-errors.ts";
import { persistently } from "./persistently.ts";
import { readPath } from "./read-path.ts";
import { type Extent, type ExtentRow, extentOf, type SessionPlace } from "./session-place.ts";
import { replaced, upgradeSession } from "./upgrade-session.ts";

const EXTENT = {
  name: "espalier-extent",
  text: "SELECT lines, bytes, plain FROM espalier.session WHERE key = $1 AND made = $2",
};

/**
 * A session in the database. Its bytes come within reach when {@link load} asks for them; a context needs only the end
 * of a path. Calls take their turn, so that what was seen always is a prefix of what is there.
 */
export class PostgresLog implements SessionLog {
  readonly ref: string;
  readonly header: SessionHeader | undefined;
  readonly #database: Database;
  readonly #mode: OpenMode;
  readonly #appended: () => void;
  upgraded: UpgradedLog | undefined;
  #place: SessionPlace;
  #seen: Extent;
  /** Whether what stands there is of an old format: it is read as a whole, and grows only by becoming current. */
  #isOld: boolean;
  #isPlain: boolean;
  #bytes: GrowingBytes | undefined;
  #turn: Promise<unknown> = Promise.resolve();
  #isClosed = false;

  /** @param appended called behind every append: time for a hint to those who follow the session */
  constructor(database: Database, found: FoundSession, mode: OpenMode, appended: () => void) {
    this.ref = found.place.ref;
    this.header = found.header;
    this.#database = database;
    this.#place = found.place;
    this.#seen = found.extent;
    this.#isPlain = found.isPlain;
    this.#isOld = found.header !== undefined && found.header.version < FORMAT_VERSION;
    this.#mode = mode;
    this.#appended = appended;
  }

  get view(): ByteView | undefined {
    return this.#isOld ? this.upgraded?.view : this.#bytes?.view(this.#seen.bytes);
  }

  load(): Promise<ByteView> {
    return this.#inTurn(() => asTroubleOfSession("unreadable", () => this.#loaded()));
  }

  readPath(leafId?: string): Promise<PathWindow> {
    return this.#inTurn(() =>
      asTroubleOfSession("unreadable", async () => {
        const isCheap = this.#isPlain && !this.#bytes;
        const path = isCheap
          ? await readPath(this.#database, this.#place, this.#seen.lines, leafId)
          : undefined;
        // Only who knows all ids can name those that are near a wrong one.
        return path ?? readPathWindow(await this.#loaded(), leafId);
      }),
    );
  }

  append(lines: readonly string[], { ifUnchanged = false }: LineAppendOptions = {}): Promise<LogAppend> {
    return this.#inTurn(async () => {
      this.#assertWritable();
      const from = await this.#size();
      if (lines.length === 0) return { offset: from, length: 0, from, to: from };
      const given = lines.map((line) => rowOfLine(line));
      if (this.#isOld) await asTroubleOfSession("write-failed", () => this.#makeCurrent());
      const rows = settled(given, this.#isPlain);
      const { start, end, isWhole } = await asTroubleOfSession("write-failed", () =>
        appendLines(this.#database, this.#place, rows, ifUnchanged ? this.#seen.lines : undefined),
      );
      this.#isPlain &&= rows.every(({ isPlain }) => isPlain);
      const isOnlyOwn = isWhole && start.lines === this.#seen.lines;
      await asTroubleOfSession("unreadable", () => this.#see(end, isOnlyOwn ? rows : undefined));
      this.#appended();
      const offset = Math.max(start.bytes, from);
      return { offset, length: end.bytes - offset, from, to: end.bytes };
    });
  }

  takeIn(): Promise<{ from: number; to: number } | null> {
    return this.#inTurn(() =>
      asTroubleOfSession("unreadable", async () => {
        const { key, ref, made } = this.#place;
        const [row] = await persistently(this.#database, () =>
          this.#database.query<ExtentRow & { plain: boolean }>(EXTENT, [key, made]),
        );
        if (!row) throw this.#isOld ? replaced(ref) : gone(ref);
        if (this.#isOld) return null;
        const { bytes: from } = this.#seen;
        this.#isPlain = row.plain;
        await this.#see(extentOf(row));
        return this.#seen.bytes > from ? { from, to: this.#seen.bytes } : null;
      }),
    );
  }

  /** Every append is on the server's disk when it is acknowledged: see `PINNED` of the connections. */
  async flush(): Promise<void> {
    await this.#turn;
    if (this.#isClosed) throw closed();
  }

  async close(): Promise<void> {
    await this.#turn;
    this.#isClosed = true;
  }

  async #loaded(): Promise<ByteView> {
    if (!this.#bytes) {
      const bytes = new GrowingBytes(new Uint8Array());
      await fetchInto(bytes, this.#database, this.#place, { lines: 0, bytes: 0 }, this.#seen);
      if (this.#isOld && bytes.size !== this.#seen.bytes) throw replaced(this.ref);
      this.#bytes = bytes;
    }
    const view = this.#bytes.view(this.#seen.bytes);
    if (!this.#isOld) return view;
    this.upgraded ??= upgradeLog(view, this.header);
    return this.upgraded!.view;
  }

  /** Bytes of what is read. */
  async #size(): Promise<number> {
    if (!this.#isOld) return this.#seen.bytes;
    return (await asTroubleOfSession("unreadable", () => this.#loaded())).size;
  }

  async #makeCurrent(): Promise<void> {
    const { view } = this.upgraded!;
    const { place, extent, isPlain } = await upgradeSession(
      this.#database,
      this.#place,
      this.#seen,
      this.upgraded!,
    );
    this.#place = place;
    this.#seen = extent;
    this.#isPlain = isPlain;
    this.#bytes = new GrowingBytes(view.read(0, view.size));
    this.#isOld = false;
    this.upgraded = undefined;
  }

  /** Goes on to `end`; `own` are the lines in between where they are at hand. */
  async #see(end: Extent, own?: readonly LineRow[]): Promise<void> {
    const bytes = this.#bytes;
    // What a failed call had fetched already stands behind what counts as seen.
    if (bytes && bytes.size > this.#seen.bytes) this.#bytes = undefined;
    else if (bytes && own) {
      for (const row of own) addLine(bytes, row.bytes);
    } else if (bytes) await fetchInto(bytes, this.#database, this.#place, this.#seen, end);
    this.#seen = end;
  }

  #assertWritable(): void {
    if (this.#isClosed) throw closed();
    if (this.#mode === "read")
      throw new SessionTreeError("read-only", "The session was opened for reading; open it for writing.");
  }

  #inTurn<Result>(act: () => Promise<Result>): Promise<Result> {
    const result = this.#turn.then(act);
    this.#turn = result.catch(() => undefined);
    return result;
  }
}

/**
 * Rows whose parents the table can check: those of a session that is not plain have none, since what they name may be
 * something that is in no key. A parent has to stand above its children, also within a batch.
 */
function settled(rows: readonly LineRow[], isPlain: boolean): LineRow[] {
  const below = new Map<string, number>();
  for (const { id } of rows) if (id !== null) below.set(id, (below.get(id) ?? 0) + 1);
  return rows.map((row) => {
    const isAbove = row.parent === null || !below.get(row.parent);
    if (row.id !== null) below.set(row.id, below.get(row.id)! - 1);
    if (isPlain && isAbove) return row;
    return { ...row, parent: null, isPlain: row.isPlain && isAbove };
  });
}

const closed = () => new SessionTreeError("closed", "The session was closed; open it again to write.");
