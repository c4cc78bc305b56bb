import type { ByteView } from "@espalier/jsonl-stream";

/** A file of another agent, opened. */
export interface SourceFile {
  /** Its path, or its name where there is no path (a file dropped onto a page). */
  path: string;
  view: ByteView;
  /** SHA-256 of its bytes, hex; asked for only when a header is made. */
  digest(): string;
}

/** The last part of a path, without `.jsonl` and `.zst`. */
export function sourceName(path: string): string {
  return path
    .replace(/^.*[/\\]/, "")
    .replace(/\.zst$/, "")
    .replace(/\.jsonl$/, "");
}
