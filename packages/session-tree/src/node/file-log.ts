import { type ByteView, encodeLines, forEachLine } from "@espalier/jsonl-stream";
import { type AppendFile, createWhole, openAppendFile, replaceWhole } from "@espalier/jsonl-stream/node";
import { readPathWindow } from "../read-path-window.ts";
import { FORMAT_VERSION, type SessionHeader } from "../session-header.ts";
import { readSessionLine } from "../session-line.ts";
import type { Durability, LogAppend, OpenMode, SessionLog } from "../session-store.ts";
import { SessionTreeError } from "../session-tree-error.ts";
import { type UpgradedLog, upgradeLog } from "../upgrade.ts";
import { withFileErrors } from "./file-errors.ts";

/** A session in a file. An old format is read as the current one, and becomes it on disk with the first append. */
export class FileLog implements SessionLog {
  readonly ref: string;
  readonly header: SessionHeader | undefined;
  /** Set while the file on disk is still in an old format. */
  upgraded: UpgradedLog | undefined;
  #file: AppendFile;

  private constructor(file: AppendFile, header: SessionHeader | undefined) {
    this.#file = file;
    this.ref = file.path;
    this.header = header;
    if (header && header.version < FORMAT_VERSION) this.upgraded = upgradeLog(file.view(), header);
  }

  /** @throws SessionTreeError `not-found`, `not-a-file`, `unreadable`, `empty-file` */
  static open(path: string, mode: OpenMode): FileLog {
    const file = withFileErrors(() => openAppendFile(path, { mode }));
    try {
      const view = file.view();
      if (view.size === 0) {
        throw new SessionTreeError(
          "empty-file",
          `${file.path} is empty; a session begins with a header line.`,
        );
      }
      return new FileLog(
        file,
        withFileErrors(() => firstHeader(view)),
      );
    } catch (error) {
      file.close();
      throw error;
    }
  }

  /** Makes a file that holds a header and lines, durable and never over another one, and opens it. Throws `exists`. */
  static create(path: string, header: SessionHeader, lines: Iterable<string | Uint8Array>): FileLog {
    withFileErrors(() => createWhole(path, wholeLines(header, lines)));
    return FileLog.open(path, "write");
  }

  get view(): ByteView {
    return this.upgraded?.view ?? this.#file.view();
  }

  async load(): Promise<ByteView> {
    return this.view;
  }

  async readPath(leafId?: string) {
    return withFileErrors(() => readPathWindow(this.view, leafId));
  }

  async append(
    lines: readonly string[],
    { durability }: { durability?: Durability } = {},
  ): Promise<LogAppend> {
    return withFileErrors(() => {
      this.#upgradeOnDisk();
      const { offset, length, from, to } = this.#file.append(encodeLines(lines));
      if (durability === "fsync") this.#file.sync();
      return { offset, length, from, to };
    });
  }

  async takeIn() {
    if (this.upgraded) return null;
    return withFileErrors(() => this.#file.takeIn());
  }

  async close(): Promise<void> {
    this.#file.close();
  }

  /** Puts the upgraded whole in the file's place; the original stays beside it as `<file>.v1` or `.v2`. */
  #upgradeOnDisk(): void {
    if (!this.upgraded) return;
    const { view, from } = this.upgraded;
    replaceWhole(this.ref, [view.read(0, view.size)], {
      keepAs: `${this.ref}.v${from}`,
      expectedSize: this.#file.size,
    });
    this.#file.close();
    this.#file = openAppendFile(this.ref, { mode: "write" });
    this.upgraded = undefined;
  }
}

function firstHeader(view: ByteView): SessionHeader | undefined {
  let header: SessionHeader | undefined;
  forEachLine(
    view,
    (block, start, end) => {
      const line = readSessionLine(block.subarray(start, end));
      if (line.is === "header") header = line.header;
      // A torn or foreign line before the header does not hide it; an entry means that there is none.
      return line.is === "header" || line.is === "entry" ? false : undefined;
    },
    { blockSize: 64 * 1024 },
  );
  return header;
}

function* wholeLines(header: SessionHeader, lines: Iterable<string | Uint8Array>): Generator<Uint8Array> {
  yield encodeLines([JSON.stringify(header)]);
  for (const line of lines) {
    if (typeof line === "string") yield encodeLines([line]);
    else {
      yield line;
      yield LINE_FEED;
    }
  }
}

const LINE_FEED = Uint8Array.of(10);
