import type { LogicalLine } from "./logical-line.ts";
import { itemText, kindOfRollout, type RolloutLine } from "./rollout-line.ts";

/** How many lines of the original a copy may lack before a line. */
const LOOK_AHEAD = 64;

/**
 * Tells the lines that a fork copied from those it wrote itself. Copies got the time of the copying: they get back name
 * and time of their original, so that both are one entry.
 */
export function* matchCopies(
  lines: Iterable<LogicalLine>,
  original: Iterable<LogicalLine>,
  originalThread: string,
): Generator<LogicalLine, void> {
  const ahead = new Ahead(original);
  let misses = 0;
  // The fork's own header stands in front of the copies, and belongs behind them.
  let header: LogicalLine | undefined;
  let isFirst = true;
  for (const line of lines) {
    if (isFirst && line.payload["id"] !== originalThread) header = line;
    else {
      // When so many lines in a row are none, the copy has ended.
      const match = misses > LOOK_AHEAD ? undefined : ahead.find(line);
      misses = match ? 0 : misses + 1;
      if (!match && header) yield header;
      if (!match) header = undefined;
      yield match ? { ...line, seed: match.seed, timestamp: match.timestamp, isInherited: true } : line;
    }
    isFirst = false;
  }
  if (header) yield header;
}

/** The lines of the original that come next, with what they say. */
class Ahead {
  readonly #lines: Iterator<LogicalLine>;
  readonly #waiting: { line: LogicalLine; key: string }[] = [];

  constructor(lines: Iterable<LogicalLine>) {
    this.#lines = lines[Symbol.iterator]();
  }

  /** The next line that says the same; those before it are passed over. */
  find(line: LogicalLine): LogicalLine | undefined {
    const key = contentKey(line);
    for (let at = 0; at < LOOK_AHEAD; at++) {
      if (at === this.#waiting.length) {
        const next = this.#lines.next();
        if (next.done) return undefined;
        this.#waiting.push({ line: next.value, key: contentKey(next.value) });
      }
      if (this.#waiting[at]!.key === key) return this.#waiting.splice(0, at + 1)[at]!.line;
    }
    return undefined;
  }
}

/** What a line says, without what copying or rewriting may change. */
function contentKey(line: RolloutLine): string {
  const { payload } = line;
  const kind = kindOfRollout(line);
  const { call_id, encrypted_content, role, id } = payload;
  if (typeof call_id === "string") return `${kind} ${call_id}`;
  if (typeof encrypted_content === "string") return `${kind} ${encrypted_content}`;
  if (typeof role === "string") return `${kind} ${role} ${itemText(payload)}`;
  if (line.type === "session_meta") return `${kind} ${String(id)}`;
  return `${kind} ${JSON.stringify(payload)}`;
}
