import {
  type CompactionEntry,
  type ContextMessage,
  compaction,
  contextOfPath,
  type Entry,
  kindOf,
} from "@espalier/session-tree";
import type { SessionDraft } from "../import-draft.ts";
import { mentions } from "../import-mentions.ts";
import type { SourceFile } from "../import-source.ts";

/** Writes a summary of messages. */
export type Summarize = (messages: ContextMessage[]) => Promise<string>;

/**
 * Readable summaries, by entry, for compactions whose own only their provider can read: the originals still stand in the
 * file. Costs a pass over it. A summary that fails leaves the excerpts that stand there otherwise, and is told.
 *
 * @param rehearse reads the source once more: a draft can be read only once
 */
export async function summariseOpaque(
  rehearse: () => Iterable<SessionDraft>,
  { view }: SourceFile,
  summarize: Summarize,
  tell: (message: string) => void,
): Promise<Map<string, string>> {
  const summaries = new Map<string, string>();
  if (!mentions(view, /"type":\s*"compacted"/)) return summaries;
  const path = new PathSoFar();
  const [rehearsal] = rehearse();
  if (!rehearsal) return summaries;
  for (const entry of rehearsal.entries()) {
    if (entry instanceof Uint8Array) continue;
    if (compaction.is(entry) && isOpaque(entry)) {
      try {
        summaries.set(entry.id, await summarize(path.messages(entry.parentId)));
      } catch (error) {
        tell(
          `A summary could not be written (${error instanceof Error ? error.message : String(error)}); excerpts stand in its place.`,
        );
      }
    }
    path.add(entry);
  }
  return summaries;
}

const isOpaque = ({ details }: CompactionEntry): boolean =>
  (details as { opaqueSummary?: unknown } | undefined)?.opaqueSummary === true;

/** The entries on the path of the entry that was read last. */
class PathSoFar {
  readonly #entries: Entry[] = [];

  /** What a model reads at a place on the path. */
  messages(leafId: string | null): ContextMessage[] {
    this.#backTo(leafId);
    return contextOfPath(this.#entries).messages;
  }

  add(entry: Entry): void {
    if (!kindOf(entry).movesLeaf) return;
    this.#backTo(entry.parentId);
    this.#entries.push(entry);
  }

  #backTo(id: string | null): void {
    this.#entries.length = this.#entries.findLastIndex((entry) => entry.id === id) + 1;
  }
}
