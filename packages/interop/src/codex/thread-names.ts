import { parseLine, scanLines } from "@espalier/jsonl-stream";
import { isRecord } from "@espalier/session-tree";
import type { Surroundings } from "../import-draft.ts";

/** The file in which Codex keeps the names of its threads. */
export const THREAD_INDEX = "session_index.jsonl";

/** Names that threads were given; they stand in no rollout. */
export class ThreadNames {
  readonly #surroundings: Surroundings;
  #names: Map<string, string> | undefined;

  constructor(surroundings: Surroundings) {
    this.#surroundings = surroundings;
  }

  /** The newest name of a thread. */
  nameOf(threadId: string): string | undefined {
    this.#names ??= this.#read();
    return this.#names.get(threadId);
  }

  #read(): Map<string, string> {
    const names = new Map<string, string>();
    for (const path of this.#surroundings.files) {
      const source = path.endsWith(THREAD_INDEX) ? this.#surroundings.open(path) : undefined;
      if (!source) continue;
      for (const { bytes } of scanLines(source.view)) {
        const parsed = parseLine(bytes);
        const { id, thread_name } = parsed.ok && isRecord(parsed.value) ? parsed.value : {};
        if (typeof id === "string" && typeof thread_name === "string" && thread_name !== "")
          names.set(id, thread_name);
      }
    }
    return names;
  }
}
