import {
  branchSummary,
  CHARS_PER_TOKEN,
  type ContextMessage,
  commonAncestorRow,
  compaction,
  contextEdit,
  type Entry,
  estimateTokens,
  pathRows,
  projectPath,
  type Tree,
  type Usage,
} from "@espalier/session-tree";
import {
  billOf,
  collectFileOps,
  DEFAULT_LIMITS,
  type FileOps,
  type FileTool,
  fileLists,
  fileTools,
  formatFileLists,
  newFileOps,
  type RequestSummaryOptions,
  recordedFiles,
  renderMessage,
  requestSummary,
  type SummaryAnswer,
  type SummaryOmission,
} from "@espalier/summarizer";
import { BRANCH_SECTIONS, BRANCH_SUMMARY_PROMPT } from "./prompt.ts";

/** Summarizer, instructions and limits of a branch summary. Sizes are in tokens. */
export interface GenerateBranchSummaryOptions
  extends Pick<
    RequestSummaryOptions,
    "summarizer" | "customInstructions" | "signal" | "onProgress" | "onRequest" | "concurrency"
  > {
  /** `merge` for a summary that is added to another branch. Default `branch`. */
  purpose?: "branch" | "merge";
  /** Replaces {@link BRANCH_SUMMARY_PROMPT}. No headings are requested then. */
  replaceInstructions?: string;
  /** File arguments declared by tools. Default: those of common agents. */
  tools?: readonly FileTool[];
  /** Window of the model that reads the summary, in tokens. Default 200,000. */
  contextWindow?: number;
  /** Tokens reserved for answers. Default 16,384. */
  reserveTokens?: number;
  /** Text of the core between the prose and the file lists, such as the block of rules. Default: none. */
  block?: string;
}

/** A valid summary, with its usage and its source. */
export interface BranchSummaryResult {
  /** Whole text for the entry: the prose, the block and the file lists. */
  summary: string;
  readFiles: string[];
  modifiedFiles: string[];
  /** Everything that was billed, including failed attempts; absent when no usage was reported. */
  usage?: Usage;
  source: string;
  model: SummaryAnswer["model"];
  /** Requested headings that the prose lacks; absent when none is missing. */
  missingSections?: readonly string[];
  /** Content that the request shortened or dropped; absent when the summarizer reported none. */
  omitted?: SummaryOmission;
  /** Id of the entry of each message in the request. */
  sources: string[];
  /** Ids of entries that did not fit into the request. */
  dropped: string[];
}

/** Share of the reserve that a branch summary can use, but never more than a quarter of the window. */
const SUMMARY_SHARE = 0.5;

/** Smallest output limit of a branch summary, in tokens: the maximum that the extractive summarizer writes. */
const SMALLEST_LIMIT = 2_000;

/** Summarizes the entries of a branch. Writes nothing. Throws an `EspalierError` when there is no valid summary. */
export async function generateBranchSummary(
  entries: readonly Entry[],
  options: GenerateBranchSummaryOptions,
): Promise<BranchSummaryResult> {
  const {
    purpose = "branch",
    replaceInstructions,
    tools,
    contextWindow = 200_000,
    reserveTokens = 16_384,
    block = "",
    ...ask
  } = options;
  const prepared = prepareBranchEntries(entries, budgetOf(contextWindow, reserveTokens), tools);
  const answer = await requestSummary(prepared.messages, {
    ...ask,
    purpose,
    instructions: replaceInstructions ?? BRANCH_SUMMARY_PROMPT,
    sections: replaceInstructions === undefined ? BRANCH_SECTIONS : [],
    maxOutputTokens: Math.floor(
      Math.min(Math.max(SMALLEST_LIMIT, reserveTokens * SUMMARY_SHARE), contextWindow / 4),
    ),
  });
  const lists = fileLists(prepared.fileOps);
  const files = formatFileLists(lists, Math.floor(contextWindow / 8));
  const usage = billOf(answer);
  return {
    summary: [answer.text.replace(BLOCK_TAG, "&lt;"), block, files].filter(Boolean).join("\n\n"),
    ...lists,
    ...(usage && { usage }),
    source: answer.source ?? ask.summarizer.name,
    model: answer.model,
    ...(answer.missingSections && { missingSections: answer.missingSections }),
    ...(answer.omitted && { omitted: answer.omitted }),
    sources: prepared.sources,
    dropped: prepared.dropped,
  };
}

/** Tags of the blocks at the end. They are escaped in the prose, so that it cannot contain a block. */
const BLOCK_TAG = /<(?=\/?(?:rules|read-files|modified-files)\b)/gi;

/**
 * Returns the budget of a branch in tokens: the window less the reserve, or half of the window when the reserve is not
 * smaller than the window.
 */
const budgetOf = (contextWindow: number, reserveTokens: number): number =>
  reserveTokens < contextWindow ? contextWindow - reserveTokens : Math.floor(contextWindow / 2);

/** Plan of a branch summary. */
export interface BranchSummaryPlan extends BranchEntries {
  /**
   * False when the branch has no content of its own: it is empty, or has only labels, settings, system messages,
   * excluded shell runs or a compaction.
   */
  hasSomethingToTell: boolean;
}

/**
 * Plans the summary of the branch that is abandoned by a move from a leaf to an entry. Pure.
 *
 * @throws EspalierError `unknown-entry`
 */
export function planBranchSummary(
  session: Tree | { readonly tree: Tree },
  oldLeafId: string | null,
  targetId: string | null,
): BranchSummaryPlan {
  const left = collectEntriesForBranchSummary(session, oldLeafId, targetId);
  return { ...left, hasSomethingToTell: hasSomethingToTell(left.entries) };
}

/**
 * Returns whether entries of a branch have content of their own: a message other than a system message, an excluded
 * shell run or the summary of a compaction.
 */
export function hasSomethingToTell(entries: readonly Entry[]): boolean {
  return originalMessages(entries).some(hasText);
}

/** Entries of a branch that the target does not have. */
export interface BranchEntries {
  /** Entries from below the common ancestor to the old leaf, oldest first. */
  entries: Entry[];
  /** Id of the deepest entry on both paths; null when they have none in common. */
  commonAncestorId: string | null;
}

/**
 * Collects the entries that are abandoned by a move from one leaf to another entry. Reads only the branch, including
 * entries before a compaction on it.
 *
 * @param session a tree, or an object with a tree
 * @param oldLeafId the old leaf; null abandons no entries
 * @param targetId the target of the move; null is before the first entry
 * @throws EspalierError `unknown-entry`
 */
export function collectEntriesForBranchSummary(
  session: Tree | { readonly tree: Tree },
  oldLeafId: string | null,
  targetId: string | null,
): BranchEntries {
  const tree = "tree" in session ? session.tree : session;
  const targetRow = targetId === null ? -1 : tree.row(targetId);
  const leafRow = oldLeafId === null ? -1 : tree.row(oldLeafId);
  const ancestor = commonAncestorRow(tree, leafRow, targetRow);
  return {
    entries: pathRows(tree, leafRow, ancestor).map((row) => tree.entryAt(row)),
    commonAncestorId: ancestor < 0 ? null : tree.idAt(ancestor),
  };
}

/** A branch prepared for a summarizer. */
export type PreparedBranch = ReturnType<typeof prepareBranchEntries>;

/**
 * Takes the messages of a branch, newest first, until the budget is used; always at least the newest one. The content
 * that a compaction on the branch covers is included once: as its messages or, when they do not fit, as its summary.
 *
 * @param tokenBudget the window minus the reserve for the answer; default: no limit
 */
export function prepareBranchEntries(
  entries: readonly Entry[],
  tokenBudget: number = Number.POSITIVE_INFINITY,
  tools: readonly FileTool[] = fileTools,
) {
  const whole = originalMessages(entries);
  const fileOps = filesOf(entries, whole, tools);
  let told = newestWithin(whole, tokenBudget);
  // The newest compaction on the branch covers the messages that do not fit, and those that it removed from the middle.
  if (told.dropped.length > 0 || hasRemovals(entries))
    told = newestWithin(messagesRead(entries), tokenBudget);
  return {
    /** The newest messages that fit, oldest first. */
    messages: told.taken.map(({ message }) => message),
    /** Id of the entry of each message. */
    sources: told.taken.map(({ entryId }) => entryId),
    /** Ids of entries whose messages did not fit, oldest first. */
    dropped: told.dropped.map(({ entryId }) => entryId),
    /** Files that the whole branch read or modified, including those in its summaries. */
    fileOps,
    /** Size of `messages`: characters / 4. Long tool results count with the part that a transcript shows. */
    totalTokens: told.tokens,
  };
}

/**
 * Returns whether the edit directly after a compaction removes an entry, whose content is then only in the summary.
 * Entries that a user hid are in no summary.
 */
function hasRemovals(entries: readonly Entry[]): boolean {
  return entries.some((entry, at) => {
    const next = entries[at + 1];
    if (!compaction.is(entry) || next === undefined || !contextEdit.is(next)) return false;
    return next.replacement === null && next.reason !== "manual";
  });
}

function newestWithin(said: readonly EntryMessage[], budget: number) {
  // A summary at the beginning is worth more than the oldest message after it.
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

/** Returns the tokens of a message in the budget: its size, or that of the part that a transcript shows. */
function shownTokens(message: ContextMessage): number {
  const whole = estimateTokens(message);
  if (whole * CHARS_PER_TOKEN <= DEFAULT_LIMITS.toolResultLimit) return whole;
  return Math.min(whole, Math.ceil(renderMessage(message, DEFAULT_LIMITS).text.length / CHARS_PER_TOKEN));
}

function filesOf(
  entries: readonly Entry[],
  said: readonly EntryMessage[],
  tools: readonly FileTool[],
): FileOps {
  const fileOps = newFileOps();
  for (const entry of entries)
    if (branchSummary.is(entry) || compaction.is(entry)) recordedFiles(entry, fileOps);
  const messages = said.map(({ message }) => message);
  return collectFileOps(messages, tools, fileOps);
}

interface EntryMessage {
  message: ContextMessage;
  entryId: string;
}

/** Returns the messages that a model reads of these entries. A compaction among them hides the entries that it covers. */
function messagesRead(entries: readonly Entry[]): EntryMessage[] {
  return projectPath(entries).flatMap(({ entry, messages }) =>
    messages.map((message) => ({ message, entryId: entry.id })),
  );
}

/** Returns the messages of these entries without compactions, with edits applied. */
function originalMessages(entries: readonly Entry[]): EntryMessage[] {
  return messagesRead(entries.filter((entry) => !compaction.is(entry)));
}

/** Returns whether a message has content. System messages and excluded shell runs have none. */
function hasText({ message }: EntryMessage): boolean {
  return message.role !== "system" && estimateTokens(message) > 0;
}
