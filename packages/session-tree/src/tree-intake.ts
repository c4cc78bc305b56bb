import { type ByteView, forEachLine, type LineVisitor } from "@espalier/jsonl-stream";
import { LineIntake } from "./line-intake.ts";
import type { RowIndex } from "./row-index.ts";
import type { SessionHeader } from "./session-header.ts";
import type { SessionIssue } from "./session-issue.ts";
import { UsualLines } from "./usual-lines.ts";

/** Takes a log into an index, and what it grows by. */
export class TreeIntake {
  readonly #index: RowIndex;
  readonly #lines: LineIntake;
  /** Where the next call goes on: behind the last line that has an end. */
  #offset = 0;
  #nextLine = 1;

  constructor(index: RowIndex) {
    this.#index = index;
    this.#lines = new LineIntake(index, { read: () => NOTHING });
  }

  get header(): SessionHeader | undefined {
    return this.#lines.header;
  }

  get issues(): readonly SessionIssue[] {
    return this.#lines.issues;
  }

  /** The row of the last usable line: of the first copy, when that line repeats an earlier one. */
  get lastRow(): number {
    return this.#lines.lastRow;
  }

  /** Takes in what `view` has beyond what was taken before. */
  takeIn(view: ByteView): void {
    const lines = this.#lines;
    let tail = -1;
    let nextLine = this.#nextLine;
    this.#index.expect(view.size);
    const usual = new UsualLines(this.#index.hashSeed);
    lines.resume(view, usual);
    const visit: LineVisitor = (block, start, end, offset, line, terminated) => {
      if (terminated) nextLine = line + 1;
      else tail = offset;
      lines.take(block, start, end, offset, line, terminated);
    };
    try {
      forEachLine(view, visit, { from: this.#offset, lineNumber: this.#nextLine, finder: usual });
    } finally {
      usual.release();
    }
    lines.settle();
    this.#nextLine = nextLine;
    this.#offset = tail < 0 ? view.size : tail;
  }
}

const NOTHING = new Uint8Array();
