// What nobody can do faster with the same tools: the same bytes read, parsed, written or counted, and nothing else.
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { peakMegabytes, timed } from "../lib/timed.mjs";

const BLOCK = 1 << 20;

export const tasks = {
  /** Reads lines of a file, those that touch in one go, and parses them. */
  async parse({ path, spans }) {
    const runs = runsOf(spans);
    const { ms, result } = await timed(() => {
      const fd = openSync(path, "r");
      const values = [];
      let bytes = 0;
      for (const { from, to, lines } of runs) {
        const run = Buffer.allocUnsafe(to - from);
        readSync(fd, run, 0, run.length, from);
        bytes += run.length;
        for (const [start, length] of lines) {
          const at = start - from;
          values.push(JSON.parse(run.toString("utf8", at, at + length)));
        }
      }
      closeSync(fd);
      return bytes;
    });
    return { ms, bytes: result, peak: peakMegabytes() };
  },

  /** Counts newlines in blocks of 1 MB. */
  async newlines({ path }) {
    const { ms, result } = await timed(() => {
      const fd = openSync(path, "r");
      const { size } = fstatSync(fd);
      const block = Buffer.allocUnsafe(BLOCK);
      let lines = 0;
      for (let offset = 0; offset < size; offset += BLOCK) {
        const part = block.subarray(0, readSync(fd, block, 0, BLOCK, offset));
        for (let at = part.indexOf(10); at >= 0; at = part.indexOf(10, at + 1)) lines++;
      }
      closeSync(fd);
      return lines;
    });
    return { ms, lines: result };
  },

  /** What a process holds that does nothing. */
  async nothing() {
    return { peak: peakMegabytes() };
  },
};

/** @param {[offset: number, length: number][]} spans in file order */
function runsOf(spans) {
  const runs = [];
  for (const [start, length] of spans) {
    const last = runs.at(-1);
    // A newline stands between lines that touch.
    if (last && start === last.to + 1) {
      last.to = start + length;
      last.lines.push([start, length]);
    } else runs.push({ from: start, to: start + length, lines: [[start, length]] });
  }
  return runs;
}
