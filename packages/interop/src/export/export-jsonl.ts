import { jsonText } from "@espalier/jsonl-stream";
import type { ExportSource } from "./export-source.ts";

/**
 * Lines of the session format. Lines are the log's own bytes; redacted ones are written anew, and one that can no longer
 * be read gives its place only, since nobody can say what of it is to be hidden. Returns how many entries those are.
 */
export function* exportJsonl(source: ExportSource, rows: readonly number[]): Generator<string, number> {
  const { tree, header } = source;
  if (header) yield `${jsonText(header)}\n`;
  for (const row of rows) {
    yield source.redactor
      ? `${jsonText(source.entryAt(row))}\n`
      : `${decoder.decode(tree.bytesAt(row)).trimEnd()}\n`;
  }
  return rows.length;
}

const decoder = new TextDecoder();
