import type { Session } from "@espalier/engine";
import { formatBytes } from "./numbers.ts";

/** How much of the log the context at its leaf took: the path, read backwards, and whether that led to the first line. */
export function readingTrace({ core, file }: Session): string {
  const size = core.log.view?.size;
  const { readFrom, complete } = core.window;
  if (size === undefined || readFrom === undefined)
    return `The path of ${file} was given by its store, or by an index of the whole.`;
  const read = `${formatBytes(size - readFrom)} of ${formatBytes(size)}`;
  return complete
    ? `Read ${read} of ${file}, once: the path leads to its root.`
    : `Read ${read} of ${file}, from its end: a compaction stands for the rest.`;
}
