import { type Entry, kindOf, type Redactor } from "@espalier/session-tree";
import type { SessionDraft } from "../import-draft.ts";
import { CountingEntries, type SessionCounts } from "../session-counts.ts";
import { type DraftWriting, draftLine, leafBehind, leafLine } from "./draft-lines.ts";

/** A session that is written for the first time: its lines one at a time, counted as they go. */
export class NewSession {
  readonly #written = new CountingEntries();
  readonly #draft: SessionDraft;
  readonly #items: Generator<Entry | Uint8Array, void>;
  /** Items that were looked at before they are written. */
  readonly #first: (Entry | Uint8Array)[] = [];
  readonly #redactor: Redactor | undefined;

  constructor(draft: SessionDraft, { redactor, summaries }: DraftWriting) {
    this.#draft = draft;
    this.#redactor = redactor;
    this.#items = draft.entries(summaries ? { summaries } : {});
  }

  /** What is in it; complete with the lines. Lines that are copied are counted by who copies them. */
  get counts(): SessionCounts {
    return this.#draft.counts ?? this.#written;
  }

  /** Whether anything is said in it; a session of notes alone is none. */
  hasConversation(): boolean {
    for (let next = this.#items.next(); !next.done; next = this.#items.next()) {
      this.#first.push(next.value);
      if (next.value instanceof Uint8Array || kindOf(next.value).toMessages) return true;
    }
    return false;
  }

  /** The lines, with a last one that sets the leaf where those before leave it elsewhere. */
  *lines(): Generator<string | Uint8Array, void> {
    let leafId: string | null = null;
    for (const items of [this.#first, this.#items]) {
      for (const item of items) {
        if (item instanceof Uint8Array) {
          yield item;
        } else {
          this.#written.add(item);
          leafId = leafBehind(item, leafId);
          yield draftLine(item, this.#draft, this.#redactor);
        }
      }
    }
    const { leafId: target } = this.#draft;
    if (target === undefined || target === leafId) return;
    this.#written.entries++;
    yield leafLine(target);
  }
}
