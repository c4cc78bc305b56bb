import type { GrowingBytes } from "@espalier/session-tree";

const LINE_FEED = Uint8Array.of(10);

/** Adds a line and its end. */
export function addLine(bytes: GrowingBytes, line: Uint8Array): void {
  bytes.add(line);
  bytes.add(LINE_FEED);
}
