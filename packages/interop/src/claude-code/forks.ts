import type { ParentLink } from "@espalier/session-tree";
import type { Surroundings } from "../import/draft.ts";
import type { ScratchSpace } from "../scratch/space.ts";
import { ClaudeCodeFile, readSessionFacts, sessionIdOf } from "./file.ts";
import { hasPlace } from "./line-facts.ts";

/**
 * Finds out which session a file was forked from. A fork made by the library names it in each copied line. One made on
 * the command line copies lines as they are: it is known by a first line that an older file has too.
 */
export class Forks {
  readonly #surroundings: Surroundings;
  readonly #scratch: ScratchSpace;
  /** For the id of a first line the oldest file with it, as a position among all files. */
  #oldest: Map<string, number> | undefined;

  constructor(surroundings: Surroundings, scratch: ScratchSpace) {
    this.#surroundings = surroundings;
    this.#scratch = scratch;
  }

  parentOf(file: ClaudeCodeFile): ParentLink | undefined {
    const { forks } = file.lines;
    if (forks.sessionId !== undefined) {
      const entryId = forks.lastRow < 0 ? null : file.entryIdOf(forks.lastRow);
      return { sessionId: forks.sessionId, entryId, kind: "fork" };
    }
    const original = this.#originalOf(file);
    if (!original) return undefined;
    const entryId = lastShared(file, original);
    original.close();
    return { sessionId: sessionIdOf(original), entryId, kind: "fork" };
  }

  #originalOf({ facts, source }: ClaudeCodeFile): ClaudeCodeFile | undefined {
    const { files } = this.#surroundings;
    const own = files.indexOf(source.path);
    if (facts.rootId === undefined || own < 0) return undefined;
    this.#oldest ??= this.#readFirstLines();
    const oldest = this.#oldest.get(facts.rootId) ?? own;
    const opened = oldest < own ? this.#surroundings.open(files[oldest]!) : undefined;
    return opened && new ClaudeCodeFile(opened, this.#scratch);
  }

  #readFirstLines(): Map<string, number> {
    const oldest = new Map<string, number>();
    for (const [at, path] of this.#surroundings.files.entries()) {
      const source = this.#surroundings.open(path);
      const { rootId, isSidechain } = source
        ? readSessionFacts(source.view)
        : { rootId: undefined, isSidechain: false };
      if (rootId !== undefined && !isSidechain && !oldest.has(rootId)) oldest.set(rootId, at);
    }
    return oldest;
  }
}

/** The entry of the last line that both files have. */
function lastShared(file: ClaudeCodeFile, original: ClaudeCodeFile): string | null {
  const { table } = file.lines;
  const older = original.lines.table;
  for (let row = table.length - 1; row >= 0; row--) {
    if (!hasPlace(table.kind(row))) continue;
    const id = file.lineAt(row)?.["uuid"];
    if (typeof id === "string" && older.rowOf(id) >= 0) return file.entryIdOf(row);
  }
  return null;
}
