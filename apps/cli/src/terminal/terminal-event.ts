import type { CompactionPlan } from "@espalier/compaction";
import type { BranchComparison, ListedSession, SearchHit } from "@espalier/engine";
import type { TerminalInput } from "./keys.ts";
import type { PathUsage } from "./path-usage.ts";
import type { ReadContext } from "./read-context.ts";
import type { Act } from "./terminal-effect.ts";
import type { TreeModel } from "./tree-model.ts";

/** A place at which a text was found. */
export type FoundText = SearchHit;

/** What a session's listing does not say. */
export interface SessionFacts {
  branches: number;
  /** US dollars, every call once. */
  cost: number;
}

/** Everything that can happen to the terminal. */
export type TerminalEvent =
  | TerminalInput
  | { type: "resize"; columns: number; rows: number }
  | { type: "tick"; now: number }
  | { type: "sessions"; sessions: readonly ListedSession[]; isDone: boolean }
  | { type: "facts"; ref: string; facts: SessionFacts }
  | { type: "hits"; query: string; hits: readonly FoundText[]; isDone: boolean }
  | {
      type: "opened";
      ref: string;
      cwd: string;
      readOnly: string | undefined;
      writer: { name: string; isBilled: boolean };
      model: TreeModel;
      /** Where the cursor shall be; by default at the leaf. */
      entryId: string | undefined;
      /** A text that waits to be written anew here. */
      editorText: string | undefined;
    }
  /** There is more of the session than before. */
  | { type: "grown"; ref: string; model: TreeModel }
  /** Entries of the open session in which a text stands, so far. */
  | { type: "found"; query: string; entryIds: readonly string[]; isDone: boolean }
  | { type: "context"; row: number; context: ReadContext }
  | { type: "usage"; row: number; usage: PathUsage }
  | { type: "planned"; plan: CompactionPlan; instructions?: string }
  | { type: "compared"; comparison: BranchComparison }
  | { type: "progress"; tokens: number }
  /** An act is in the session. */
  | { type: "acted"; act: Act; outcome: ActOutcome }
  | { type: "busy"; act: Act; holder: string }
  /** An extension asks something, and waits for the answer. */
  | { type: "asked"; question: Question }
  /** The question of an extension needs no answer any more. */
  | { type: "withdrawn"; question: number }
  /** Something went wrong: the work that is going on, or what was read beside it. */
  | { type: "failed"; message: string; wasWork: boolean }
  | { type: "told"; message: string }
  /** Something to know of what still goes on. */
  | { type: "warned"; message: string };

/** A question of an extension: for one of several choices, or, where there are none, for a text. */
export interface Question {
  id: number;
  title: string;
  message: string;
  choices: readonly string[];
}

/** What came of an act. */
export interface ActOutcome {
  /** One sentence. */
  message: string;
  /** Where the cursor shall go. */
  entryId?: string | null;
  /** A text that comes back to be written anew. */
  editorText?: string;
  /** The session that goes on, where that is another one than before. */
  ref?: string;
}
