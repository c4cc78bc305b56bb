import { forEachLine } from "../for-each-line.ts";
import { contentEnd } from "../line-content.ts";
import { LINE_FEED } from "../line-window.ts";
import type { Descriptor } from "./descriptor.ts";
import type { Span } from "./file-tail.ts";

/** Read into at each append, and by nobody in between: a buffer each time would cost more than the reading. */
const scratch = Buffer.allocUnsafeSlow(1 << 16);

/** True when `lines` stand at `position`, and before them a newline or nothing. */
export function holdsLines(descriptor: Descriptor, position: number, lines: Uint8Array): boolean {
  // Begins one byte early, at the newline before.
  for (let done = -Math.min(position, 1); done < lines.length; ) {
    const found = scratch.subarray(0, Math.min(scratch.length, lines.length - done));
    if (descriptor.readInto(position + done, found) < found.length) return false;
    if (done < 0 && found[0] !== LINE_FEED) return false;
    const from = Math.max(done, 0);
    if (found.compare(lines, from, done + found.length, from - done) !== 0) return false;
    done += found.length;
  }
  return true;
}

/** Where `lines` begin in a span of whole lines; -1 when they do not stand there by themselves. */
export function findLines(descriptor: Descriptor, { from, to }: Span, lines: Uint8Array): number {
  const first = lines.subarray(0, contentEnd(lines, 0, lines.indexOf(LINE_FEED)));
  let found = -1;
  const visit = (block: Uint8Array, start: number, end: number, offset: number): undefined | false => {
    if (Buffer.compare(block.subarray(start, end), first) !== 0) return undefined;
    if (!holdsLines(descriptor, offset, lines)) return undefined;
    found = offset;
    return false;
  };
  forEachLine(descriptor.view(to), visit, { from, to });
  return found;
}
