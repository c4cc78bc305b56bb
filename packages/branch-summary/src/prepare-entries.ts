import {
  branchSummary,
  type ContextMessage,
  compaction,
  type Entry,
  estimateTokens,
  projectPath,
} from "@espalier/session-tree";
import {
  collectFileOps,
  type FileOps,
  type FileTool,
  fileTools,
  newFileOps,
  recordedFiles,
} from "@espalier/summarizer";

/** A branch made ready for a summarizer. */
export interface PreparedBranch {
  /** As many as fit, the newest ones, oldest first. */
  messages: ContextMessage[];
  /** Files that the whole branch touched, over all summaries on it. */
  fileOps: FileOps;
  /** Size of `messages`: characters / 4. */
  totalTokens: number;
}

/**
 * Takes the messages of a branch, newest first, until the budget is used. What a compaction on the branch covers is
 * told once: by the messages themselves, or, where they do not fit, by its summary.
 *
 * @param tokenBudget the window less what is reserved for the answer; default no limit
 */
export function prepareBranchEntries(
  entries: readonly Entry[],
  tokenBudget: number = Number.POSITIVE_INFINITY,
  tools: readonly FileTool[] = fileTools,
): PreparedBranch {
  const whole = saidOn(entries.filter((entry) => !compaction.is(entry)));
  const fileOps = filesOf(entries, whole, tools);
  const taken = newestWithin(whole, tokenBudget);
  if (taken.messages.length === whole.length) return { ...taken, fileOps };
  // The newest compaction on the branch tells of what does not fit.
  return { ...newestWithin(saidOn(entries), tokenBudget), fileOps };
}

function saidOn(entries: readonly Entry[]): ContextMessage[] {
  return projectPath(entries).flatMap(({ messages }) => messages);
}

function newestWithin(messages: readonly ContextMessage[], budget: number): Omit<PreparedBranch, "fileOps"> {
  // A summary in front is worth more than the oldest message behind it.
  const front = messages[0]?.role === "compactionSummary" ? [messages[0]] : [];
  let totalTokens = front.reduce((sum, message) => sum + estimateTokens(message), 0);
  let from = messages.length;
  while (from > front.length) {
    const tokens = estimateTokens(messages[from - 1]!);
    if (totalTokens + tokens > budget) break;
    totalTokens += tokens;
    from--;
  }
  return { messages: [...front, ...messages.slice(from)], totalTokens };
}

function filesOf(
  entries: readonly Entry[],
  messages: readonly ContextMessage[],
  tools: readonly FileTool[],
): FileOps {
  const fileOps = newFileOps();
  for (const entry of entries)
    if (branchSummary.is(entry) || compaction.is(entry)) recordedFiles(entry, fileOps);
  return collectFileOps(messages, tools, fileOps);
}
