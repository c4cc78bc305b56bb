import {
  branchSummary,
  CHARS_PER_TOKEN,
  type ContextMessage,
  compaction,
  contextEdit,
  type Entry,
  estimateTokens,
} from "@espalier/session-tree";
import {
  collectFileOps,
  DEFAULT_LIMITS,
  type FileOps,
  type FileTool,
  fileTools,
  newFileOps,
  recordedFiles,
  renderMessage,
} from "@espalier/summarizer";
import { type SaidMessage, saidOn, toldOn } from "./said-on.ts";

/** A branch made ready for a summarizer. */
export interface PreparedBranch {
  /** As many as fit, the newest ones, oldest first. */
  messages: ContextMessage[];
  /** The entry of each message. */
  sources: string[];
  /** Entries whose messages did not fit, oldest first. */
  dropped: string[];
  /** Files that the whole branch touched, over all summaries on it. */
  fileOps: FileOps;
  /** Size of `messages`: characters / 4, of long tool results what a transcript shows of them. */
  totalTokens: number;
}

/**
 * Takes the messages of a branch, newest first, until the budget is used; the newest one whatever its size. What a
 * compaction on the branch covers is told once: by the messages themselves, or, where they do not fit, by its summary.
 *
 * @param tokenBudget the window less what is reserved for the answer; default no limit
 */
export function prepareBranchEntries(
  entries: readonly Entry[],
  tokenBudget: number = Number.POSITIVE_INFINITY,
  tools: readonly FileTool[] = fileTools,
): PreparedBranch {
  const whole = toldOn(entries);
  const fileOps = filesOf(entries, whole, tools);
  const taken = newestWithin(whole, tokenBudget);
  // The newest compaction on the branch tells of what does not fit, and of what it took out of the middle.
  const told =
    taken.dropped.length === 0 && !hasTakenOut(entries) ? taken : newestWithin(saidOn(entries), tokenBudget);
  return {
    messages: told.taken.map(({ message }) => message),
    sources: told.taken.map(({ entryId }) => entryId),
    dropped: told.dropped.map(({ entryId }) => entryId),
    fileOps,
    totalTokens: told.tokens,
  };
}

/**
 * Whether a compaction is followed by edits that leave entries out: what those said stands in its summary alone. What
 * somebody hid by hand stands in none.
 */
function hasTakenOut(entries: readonly Entry[]): boolean {
  return entries.some((entry, at) => {
    const next = entries[at + 1];
    if (!compaction.is(entry) || next === undefined || !contextEdit.is(next)) return false;
    return next.replacement === null && next.reason !== "manual";
  });
}

interface Taken {
  taken: SaidMessage[];
  dropped: SaidMessage[];
  tokens: number;
}

function newestWithin(said: readonly SaidMessage[], budget: number): Taken {
  // A summary in front is worth more than the oldest message behind it.
  const front = said[0]?.message.role === "compactionSummary" ? [said[0]] : [];
  let tokens = front.reduce((sum, { message }) => sum + shownTokens(message), 0);
  let from = said.length;
  while (from > front.length) {
    const size = shownTokens(said[from - 1]!.message);
    if (tokens + size > budget && from < said.length) break;
    tokens += size;
    from--;
  }
  return { taken: [...front, ...said.slice(from)], dropped: said.slice(front.length, from), tokens };
}

/** What a message takes of a budget: its size, and of what a transcript cuts no more than is shown. */
function shownTokens(message: ContextMessage): number {
  const whole = estimateTokens(message);
  if (whole * CHARS_PER_TOKEN <= DEFAULT_LIMITS.toolResultLimit) return whole;
  return Math.min(whole, Math.ceil(renderMessage(message, DEFAULT_LIMITS).text.length / CHARS_PER_TOKEN));
}

function filesOf(
  entries: readonly Entry[],
  said: readonly SaidMessage[],
  tools: readonly FileTool[],
): FileOps {
  const fileOps = newFileOps();
  for (const entry of entries) {
    if (branchSummary.is(entry)) recordedFiles(entry, fileOps);
    if (compaction.is(entry)) recordedFiles(entry, fileOps);
  }
  return collectFileOps(
    said.map(({ message }) => message),
    tools,
    fileOps,
  );
}
