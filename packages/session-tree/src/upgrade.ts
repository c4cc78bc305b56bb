import { type ByteView, bytesView, forEachLine } from "@espalier/jsonl-stream";
import { joined, lineUpgrade } from "./line-upgrade.ts";
import type { SessionHeader } from "./session-header.ts";

/** A log of format 1 or 2 as one of format 3. */
export interface UpgradedLog {
  view: ByteView;
  /** The bytes it was made from: what a copy has to be. */
  original: ByteView;
  /** The version it had. */
  from: number;
  /** For each line of the upgraded log, where the line begins in the original: issues are told by that. */
  originalOffsets: number[];
}

/**
 * Reads a log of an old version as one of the current version, in memory, line for line. Lines that need no change, and
 * lines that cannot be read, stay as bytes; the latter are reported by who reads the log. Undefined for a log without a
 * header, and for one that is not old.
 */
export function upgradeLog(view: ByteView, header: SessionHeader | undefined): UpgradedLog | undefined {
  const upgrade = header && lineUpgrade(header);
  if (!upgrade) return undefined;
  const parts: Uint8Array[] = [];
  const originalOffsets: number[] = [];
  forEachLine(view, (block, start, end, offset, lineNumber, terminated) => {
    originalOffsets.push(offset);
    parts.push(upgrade(block.slice(start, end), lineNumber));
    // A last line without an end stays one: whoever looks for damage finds it there too.
    if (terminated) parts.push(LINE_FEED);
  });
  return { view: bytesView(joined(parts)), original: view, from: header.version, originalOffsets };
}

const LINE_FEED = Uint8Array.of(10);
