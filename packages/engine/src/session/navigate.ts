// Separate from session.ts: the ways to leave a branch are one noun; the class only names them.
import {
  type BeforeForkAnswer,
  type BeforeForkEvent,
  type BranchSummaryPlan,
  type BranchSummaryProposal,
  generateBranchSummary,
  hasSomethingToTell,
  planBranchSummary,
  prepareBranchEntries,
  sessionBeforeFork,
  sessionFork,
  sessionNavigate,
} from "@espalier/branch-summary";
import { omittedEntries, rulesBlock, rulesOn } from "@espalier/compaction";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  assertWritable,
  branchSummary,
  createId,
  type Entry,
  ForkLines,
  type ForkPlan,
  type ForkPosition,
  forkHeader,
  isRecord,
  label,
  leaf,
  type NewEntry,
  pathRows,
  planFork,
  promptText,
  type Usage,
} from "@espalier/session-tree";
import { fileLists, recordedFiles, soundUsage } from "@espalier/summarizer";
import type { CompactionRequest } from "../compaction/draft.ts";
import { restoreFiles } from "../compaction/offload.ts";
import { situationOf, toolsOf } from "../compaction/request.ts";
import { EXTRACTIVE, summaryOptions } from "../compaction/summarizers.ts";
import { abortedAct, askExtensions } from "../extensions/context.ts";
import { handledDrafts, oneLine } from "./append.ts";
import type { Session } from "./session.ts";
import { type ActOptions, type Bill, billUsage, ownerAsked, refuseReadOnly } from "./state.ts";

/** Options of a navigation: the summary of the abandoned branch, and a label for the target. */
export interface NavigateOptions extends BranchSummaryRequest {
  /** Label, as one line, for the branch summary if one is written, else for the target; a blank label is ignored. */
  label?: string;
}

/** Result of a navigation. */
export interface NavigateResult {
  leafId: string | null;
  /** Id of the written branch summary; null when none was written. */
  summaryEntryId: string | null;
  /** Text of the target when it is an editable message; null for any other entry. */
  editorText: string | null;
}

/**
 * Moves the leaf as `Session.navigate` describes, in this order: find the target, plan the abandoned branch, ask the
 * extensions, summarize, then write everything in one append. If the summary fails or is aborted, only its billed usage
 * is appended.
 */
export async function navigate(
  session: Session,
  targetId: string | null,
  options: NavigateOptions = {},
): Promise<NavigateResult> {
  if (options.summarize) refuseReadOnly(session);
  await session.load();
  const oldLeafId = session.leafId;
  const { tree } = session;
  const row = targetId === null ? -1 : tree.row(targetId);
  // The target is the parent of an editable message, or else the entry itself.
  const editorText = row < 0 ? null : promptText(tree.entryAt(row));
  const placeId = session.placeOf(editorText === null ? targetId : tree.parentIdAt(row));
  const position = targetId === null || editorText !== null ? "before" : "at";
  const event = { kind: "navigate", targetId, entryId: targetId ?? rootIdOf(session), position } as const;
  return leaveBranch(session, event, targetId, options, async ({ summary, labelText, refuseAborted }) => {
    const id = createId();
    let leftId = oldLeafId;
    // Drafted when earlier appends have ended: they may have moved the leaf.
    const drafted = () => {
      const entries: NewEntry[] = [];
      leftId = session.leafId;
      if (summary)
        entries.push(branchSummary.of({ id, parentId: placeId, ...summary, fromId: leftId ?? "" }));
      else if (placeId !== leftId) entries.push(leaf.of({ id, parentId: placeId, targetId: placeId }));
      const labelled = summary ? id : targetId;
      if (labelText && labelled !== null) {
        const part = entries.length > 0 ? { navigation: id } : {};
        entries.push(label.of({ targetId: labelled, label: labelText, ...part }));
      }
      return entries;
    };
    const check = () => {
      refuseAborted();
      if (summary && hasMoved(session, oldLeafId)) throw branchWentOn();
    };
    // Checked before the append too, so that no handler is asked about an entry that is refused.
    check();
    await session.append(drafted, { check });
    const summaryEntryId = summary ? id : null;
    const summaryEntry = summary && session.getEntry(id);
    await restoreFiles(session);
    await session.tell(sessionNavigate, {
      oldLeafId: leftId,
      newLeafId: session.leafId,
      summaryEntryId,
      ...(summaryEntry && branchSummary.is(summaryEntry) ? { summaryEntry } : {}),
      fromExtension: summary?.fromHook ?? false,
    });
    return { leafId: session.leafId, summaryEntryId, editorText };
  });
}

/** Returns the id of the first entry on the leaf's path, without parsing lines; empty when the path is empty. */
function rootIdOf({ tree, leafId }: Session): string {
  if (leafId === null) return "";
  const [root = -1] = pathRows(tree, tree.row(leafId));
  return root < 0 ? "" : tree.idAt(root);
}

/** Options of a merge: its target, and its summary. */
export interface MergeOptions extends Omit<BranchSummaryRequest, "summarize"> {
  /** Target of the merge. Default: the leaf. For any other entry the leaf does not move. */
  into?: string;
}

/** Result of a merge. */
export interface MergeResult {
  /** Id of the branch summary; of the earlier one, if the same leaf was merged before. */
  entryId: string;
  leafId: string | null;
}

/** Source of a merge, in the `details.merge` of its branch summary. */
interface MergeProvenance {
  commonAncestorId: string | null;
  /** Ids of the summarized entries. */
  entryIds: string[];
}

/**
 * Merges as `Session.merge` describes, by appending a branch summary, which records its source. Entries that were merged
 * before are not summarized again.
 */
export async function mergeBranch(
  session: Session,
  fromId: string,
  options: MergeOptions = {},
): Promise<MergeResult> {
  await session.load();
  const from = session.placeOf(fromId);
  const into = options.into === undefined ? session.leafId : session.placeOf(options.into);
  const merges = session.getBranch(into).flatMap(mergeOf);
  const already = merges.find((merge) => merge.fromId === from);
  if (already) return { entryId: already.entryId, leafId: session.leafId };
  const told = new Set(merges.flatMap(({ entryIds }) => entryIds));
  const { commonAncestorId, entries } = planBranchSummary(session.tree, from, into);
  const left = entries.filter(({ id }) => !told.has(id));
  const plan = { entries: left, commonAncestorId, hasSomethingToTell: hasSomethingToTell(left) };
  if (from === null || !plan.hasSomethingToTell) {
    throw new EspalierError(
      "nothing-to-merge",
      `The branch of ${JSON.stringify(fromId)} has no content that this branch lacks.`,
    );
  }
  refuseReadOnly(session);
  const { signal = new AbortController().signal } = options;
  const bill = billOf(session, options);
  return billUsage(session, bill, async () => {
    const asked = { ...options, summarize: true, signal, purpose: "merge" as const };
    const summary = await summarizeBranch(session, plan, {}, asked);
    bill.usage = summary?.usage;
    const merge: MergeProvenance = { commonAncestorId, entryIds: left.map(({ id }) => id) };
    const entryId = createId();
    const details = { ...summary!.details, merge };
    const { leafId } = session;
    const parentId = options.into === undefined ? leafId : into;
    if (options.into === undefined && into !== null && !session.isOnPath(into)) throw branchWentOn();
    const entries: NewEntry[] = [
      branchSummary.of({ id: entryId, parentId, fromId: from, ...summary!, details }),
    ];
    // Moving the leaf to another entry and back is no user action: an undo skips both moves.
    if (parentId !== leafId) entries.push(leaf.of({ parentId: leafId, targetId: leafId, undoes: entryId }));
    const check = () => {
      if (signal.aborted) throw abortedAct("merge");
      if (session.leafId !== leafId) throw branchWentOn();
    };
    await session.append(entries, { check });
    return { entryId, leafId: session.leafId };
  });
}

/** Returns a merge on a path: the merged leaf, and the summarized entries. */
function mergeOf(entry: Entry): { entryId: string; fromId: string; entryIds: readonly string[] }[] {
  if (!branchSummary.is(entry)) return [];
  const { merge } = (entry.details ?? {}) as { merge?: Partial<MergeProvenance> };
  if (typeof merge !== "object" || merge === null) return [];
  const entryIds = Array.isArray(merge.entryIds) ? merge.entryIds : [];
  return [{ entryId: entry.id, fromId: entry.fromId, entryIds }];
}

/** Options of a fork: its end, its storage name, and the summary of the rest. */
export interface ForkOptions extends BranchSummaryRequest {
  /** End of the fork: the entry (`at`, default), or the entry before it (`before`). */
  position?: ForkPosition;
  /** Storage name of the fork; by default the store chooses. */
  out?: string;
}

/** Result of a fork. */
export interface ForkResult {
  /** File of the new session, or its address in another store. */
  file: string;
  id: string;
  leafId: string | null;
  /** Text of the user or custom message before which the fork ends; null for any other entry, and with `at`. */
  selectedText: string | null;
  /** Id of the summary of the content that the fork leaves out; null when there is none. */
  summaryEntryId: string | null;
}

/**
 * Copies a path into a new session: the same lines, the same ids, and the current labels and name. With `summarize`, a
 * summary of the rest follows.
 *
 * @throws EspalierError `cancelled`, `unknown-entry`, `exists`, `aborted`; `version` or `no-header` for a session that
 * can only be read; errors of the summarizer. Then no file is made
 */
export async function forkSession(
  session: Session,
  entryId: string,
  options: ForkOptions = {},
): Promise<ForkResult> {
  // Copied lines go into a file of this version: this program must know their version.
  assertWritable(session.log);
  await session.load();
  const { position = "at" } = options;
  const plan = planFork(session.tree, entryId, position);
  // A prompt directly after the fork's end is returned for editing: it does not count as left out.
  const reachedId = plan.selectedText === null ? plan.leafId : entryId;
  const event = { kind: "fork", targetId: plan.leafId, entryId, position } as const;
  const result = await leaveBranch(session, event, reachedId, options, async (left) => {
    const additions = await additionsTo(session, plan, left);
    left.refuseAborted();
    // A session without a header was refused before.
    const header = forkHeader(session.header!, session.log.ref, plan.leafId, new Date().toISOString());
    const lines = new ForkLines(session.tree, { ...plan, additions });
    const log = await session.store.create(header, lines, options.out);
    await log.close();
    const summaryEntryId = additions.find(branchSummary.is)?.id ?? null;
    const { selectedText } = plan;
    return {
      file: log.ref,
      id: header.id,
      leafId: summaryEntryId ?? plan.leafId,
      selectedText,
      summaryEntryId,
    };
  });
  await session.tell(sessionFork, { entryId, ...result });
  return result;
}

/**
 * Makes the entries after the copied lines: first the summary, then under it the current labels and name and the new
 * label. They pass through `entry_before_append`, because they are new.
 */
async function additionsTo(
  session: Session,
  { leafId: copiedLeafId, additions }: ForkPlan,
  { summary, labelText }: LeftBranch,
): Promise<Entry[]> {
  const timestamp = new Date().toISOString();
  const added = <Drafted extends NewEntry>(draft: Drafted, parentId: string | null) =>
    ({ ...draft, id: createId(), parentId, timestamp }) as Entry;
  const first = summary && added(branchSummary.of(summary), copiedLeafId);
  const leafId = first?.id ?? copiedLeafId;
  const beside = additions.map((entry) => ({ ...entry, parentId: leafId }));
  if (labelText && leafId !== null)
    beside.push(added(label.of({ targetId: leafId, label: labelText }), leafId));
  return [...(await handledDrafts(session, first ? [first, ...beside] : beside))];
}

interface BranchSummaryRequest
  extends Pick<CompactionRequest, "instructions" | "summarizer" | "fallback" | keyof ActOptions> {
  /** Summarizes the abandoned branch into the target. Default false. */
  summarize?: boolean;
  /** True: `instructions` replace the prompt. Default false: they are added to the prompt. */
  replaceInstructions?: boolean;
}

/** An abandoned branch: its summary, when one was made, and the label for the target. */
interface LeftBranch {
  summary: (BranchSummaryFields & { fromId: string }) | undefined;
  /** Empty when the target gets no label. */
  labelText: string;
  /** Throws EspalierError `aborted` after the action was aborted. */
  refuseAborted: () => void;
}

/**
 * Leaves the leaf's branch: asks the extensions, makes the summary, then calls `write`, which appends or forks.
 *
 * @param reachedId an entry on the target's path; the abandoned branch begins below the deepest common entry
 * @throws EspalierError `aborted`, `cancelled`, with the usage of all requests
 */
async function leaveBranch<Result>(
  session: Session,
  event: Pick<BeforeForkEvent, "kind" | "targetId" | "entryId" | "position">,
  reachedId: string | null,
  options: BranchSummaryRequest & { label?: string },
  write: (left: LeftBranch) => Promise<Result>,
): Promise<Result> {
  const what = event.kind === "fork" ? "fork" : "navigation";
  const { host, leafId: oldLeafId } = session;
  const { summarize = false, signal = new AbortController().signal } = options;
  // A branch may be too long for memory: it is only read for a summary or an extension.
  const plan: BranchSummaryPlan =
    summarize || host.has(sessionBeforeFork)
      ? planBranchSummary(session.tree, oldLeafId, reachedId)
      : { entries: [], commonAncestorId: null, hasSomethingToTell: false };
  const refuseAborted = () => {
    if (signal.aborted) throw abortedAct(what);
  };
  refuseAborted();
  const { answer, owners } = await askExtensions(session, what, sessionBeforeFork, {
    ...event,
    oldLeafId,
    commonAncestorId: plan.commonAncestorId,
    entriesToSummarize: plan.entries,
    userWantsSummary: summarize,
    ...(options.instructions ? { customInstructions: options.instructions } : {}),
    ...(options.replaceInstructions ? { replaceInstructions: true } : {}),
    ...(options.label ? { label: options.label } : {}),
    signal,
  });
  if (answer.summary && !(summarize && plan.hasSomethingToTell)) {
    const hook = sessionBeforeFork.name;
    const by = owners.summary ?? [];
    const why = summarize
      ? "the abandoned branch has nothing to summarize"
      : "no summary was requested (`summarize`, on the command line `--summarize`)";
    const message = `The summary that ${by.join(", ")} gave in ${hook} was not written: ${why}.`;
    host.report({ kind: "unused-answer", owners: by, hook, message });
  }
  const labelText = oneLine(options.label ?? answer.label ?? "");
  const bill = billOf(session, options, owners.summary);
  return billUsage(session, bill, async () => {
    const summary = await summarizeBranch(session, plan, answer, { ...options, signal });
    bill.usage = summary?.usage;
    return write({ summary: summary && { fromId: oldLeafId ?? "", ...summary }, labelText, refuseAborted });
  });
}

interface BranchSummaryFields {
  summary: string;
  details: Record<string, unknown>;
  usage?: Usage;
  fromHook?: boolean;
}

/**
 * Returns the bill of a branch summary.
 *
 * @param owners the extensions that wrote the summary; undefined when the core makes it
 */
function billOf(
  { options }: Session,
  { summarizer }: BranchSummaryRequest,
  owners?: readonly string[],
): Bill {
  const author = owners ? ownerAsked(owners) : (summarizer ?? options.summarizer ?? EXTRACTIVE);
  return { kind: "branch_summary", author };
}

/** Returns whether the leaf left a branch, or has more content. Other entries, such as an extension's state, do not count. */
const hasMoved = (session: Session, oldLeafId: string | null): boolean =>
  session.leafId !== oldLeafId &&
  (oldLeafId === null ||
    !session.isOnPath(oldLeafId) ||
    planBranchSummary(session.tree, session.leafId, oldLeafId).hasSomethingToTell);

const branchWentOn = () =>
  new EspalierError("stale", "The branch grew while it was summarized; nothing was written. Try again.");

/**
 * Summarizes the abandoned branch, by an extension or by the core; undefined when no summary was requested, or the
 * branch has no content. Writes nothing.
 *
 * @throws EspalierError with the usage of all requests
 */
async function summarizeBranch(
  session: Session,
  plan: BranchSummaryPlan,
  { summary: proposal, instructions, replaceInstructions }: Partial<BeforeForkAnswer>,
  options: BranchSummaryRequest & { signal: AbortSignal; purpose?: "branch" | "merge" },
): Promise<BranchSummaryFields | undefined> {
  if (!options.summarize || !plan.hasSomethingToTell) return undefined;
  const covered = { firstEntryId: plan.entries[0]!.id, lastEntryId: plan.entries.at(-1)!.id };
  // Rules that apply at the end of the branch and not at its beginning.
  const rules = rulesOn(plan.entries, { isFinding: session.options.rules !== false }).filter(
    ({ from }) => !session.isOnPath(from.entryId, plan.commonAncestorId),
  );
  const { contextWindow, reserveTokens } = situationOf(session, {}).settings;
  const block = rulesBlock(rules, Math.floor(contextWindow / 8));
  const recorded = { covered, ...(rules.length > 0 ? { rules } : {}) };
  if (proposal) return proposedSummary(session, plan, proposal, { block, recorded });
  const named = options.summarizer ?? session.options.summarizer;
  const fallback = options.fallback ?? session.options.fallback ?? named === undefined;
  // An extension that replaces the prompt also replaces the caller's prompt.
  const replacing = replaceInstructions
    ? instructions
    : options.replaceInstructions
      ? options.instructions
      : undefined;
  const attention = [options.instructions, instructions]
    .filter((text) => text && text !== replacing)
    .join("\n\n");
  const started = Date.now();
  const result = await generateBranchSummary(plan.entries, {
    ...summaryOptions(session, named ?? EXTRACTIVE, { ...options, fallback }),
    tools: toolsOf(session),
    contextWindow,
    reserveTokens,
    block,
    ...(options.purpose ? { purpose: options.purpose } : {}),
    ...(attention ? { customInstructions: attention } : {}),
    ...(replacing ? { replaceInstructions: replacing } : {}),
  });
  const { summary, usage, readFiles, modifiedFiles, source, model, omitted, sources, dropped } = result;
  const { missingSections } = result;
  const details = {
    readFiles,
    modifiedFiles,
    source,
    model,
    ...recorded,
    durationMs: Date.now() - started,
    omitted: omittedEntries(omitted, sources, dropped) ?? null,
    ...(missingSections ? { missingSections } : {}),
  };
  return { summary, details, ...(usage ? { usage } : {}) };
}

/** Returns the summary of an extension; the branch's rules are added to its text, the branch's files to its files. */
function proposedSummary(
  session: Session,
  { entries }: BranchSummaryPlan,
  { summary, details, usage }: BranchSummaryProposal,
  { block, recorded }: { block: string; recorded: object },
): BranchSummaryFields {
  const { fileOps } = prepareBranchEntries(entries, undefined, toolsOf(session));
  const own = isRecord(details) ? details : {};
  const lists = fileLists(recordedFiles({ summary, details: own }, fileOps));
  return {
    summary: block === "" ? summary : `${summary.trimEnd()}\n\n${block}`,
    details: { ...own, ...recorded, ...lists, source: "extension" },
    ...(usage ? { usage: soundUsage(usage) } : {}),
    fromHook: true,
  };
}
