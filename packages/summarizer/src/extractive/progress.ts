import type { CommandWork, FileWork } from "./digest.ts";
import { conclusionOf, type Facts, type Turn, turnWeight } from "./digest.ts";
import { LABELS } from "./exact-string.ts";
import { codeSpan, gistOf, inheritedLines, isResult, type Line, quote, sameness } from "./text.ts";
import { readCommand } from "./tool-calls.ts";

const LONGEST_REQUEST = 90;
const LONGEST_CONCLUSION = 180;
const LONGEST_ERROR = 160;

/** A failure counts as a blocker while it is in the last quarter of the messages; an older one was lived with. */
const RECENT_SHARE = 0.75;

/** After this many finished requests an open item of an earlier summary that nothing touched is dropped. */
const STALE_AFTER = 3;

/** Finished work, one line a request: the request, what changed, what was run, what the agent said of it. */
export function doneLines(facts: Facts): Line[] {
  const { digest, previous, branches } = facts;
  const lines = inheritedLines(previous.lines.done, 1);
  lines.push(...inheritedLines(branches.lines.done, 0.8).map((line) => inAnotherBranch(line)));
  for (const text of openItems(facts).done) lines.push({ text, priority: 1.2, order: -0.5 });
  for (const turn of finishedTurns(facts)) {
    const text = turnLine(turn, facts);
    const priority = 0.5 * turnWeight(turn) + (2 * turn.at) / Math.max(digest.messageCount, 1);
    if (text !== undefined) lines.push({ text, priority, order: turn.at });
  }
  for (const item of digest.plan) {
    if (item.state === "done")
      lines.push({ text: `Task done: ${quote(item.text, 120)}`, priority: 0.9, order: digest.messageCount });
  }
  return lines;
}

/** Work in progress when the messages end. */
export function inProgressLines(facts: Facts): Line[] {
  const { digest } = facts;
  const lines: Line[] = openItems(facts).open.map((text, index) => ({
    text,
    priority: 1 + index / 1_000,
    order: index - 1_000,
  }));
  const { lastTurn } = digest;
  if (lastTurn !== undefined && !lastTurn.finished) {
    const text = turnLine(lastTurn, facts) ?? openRequest(lastTurn, facts);
    if (text !== undefined) lines.push({ text, priority: 10, order: 0 });
  }
  for (const item of digest.plan) {
    if (item.state === "doing")
      lines.push({ text: `Task under way: ${quote(item.text, 120)}`, priority: 9, order: 1 });
  }
  return lines;
}

/** Commands and edits whose last attempt failed, and what an earlier summary said was blocked and still is. */
export function blockedLines(facts: Facts): Line[] {
  const { digest, previous } = facts;
  const lines = inheritedLines(
    previous.lines.blocked.filter((text) => !isResolved(text, facts)).slice(-3),
    1,
  );
  for (const { text, at } of unsettledFailures(facts)) {
    if (at >= recentFrom(facts))
      lines.push({ text, priority: 2 + at / Math.max(digest.messageCount, 1), order: at });
  }
  return lines;
}

/** The message from which on a failure counts as recent. */
export function recentFrom({ digest }: Facts): number {
  return digest.messageCount * RECENT_SHARE;
}

/** Failures that no later success of the same command or on the same file settled, oldest first. */
export function unsettledFailures({ digest }: Facts): { text: string; at: number }[] {
  const ran = digest.work.commands();
  const commands = ran.filter(
    (command) => command.failed && !command.reads && !ran.some((later) => completes(later, command)),
  );
  const files = digest.work.files().filter((file) => file.failure !== undefined);
  return [
    ...commands.map((command) => ({ text: commandFailure(command), at: command.last })),
    ...files.map((file) => ({ text: fileFailure(file), at: file.last })),
  ].sort((a, b) => a.at - b.at);
}

/** Commands of git that stop at a conflict, which a commit or `--continue` completes. */
const STOPS_AT_CONFLICT = /\bgit (?:-\S+ \S+ )?(merge|pull|cherry-pick|revert|rebase|am)\b/;

/** Returns whether a command that succeeded completes by hand what an earlier one began. */
function completes(later: CommandWork, earlier: CommandWork): boolean {
  const stopped = STOPS_AT_CONFLICT.exec(earlier.key)?.[1];
  if (stopped === undefined || later.failed || later.last <= earlier.last) return false;
  const continued = /\bgit (?:-\S+ \S+ )?(?:merge|cherry-pick|revert|rebase|am) --continue\b/.test(later.key);
  return continued || (stopped !== "rebase" && /\bgit (?:-\S+ \S+ )?commit\b/.test(later.key));
}

function commandFailure({ line, errorLine }: CommandWork): string {
  return `${codeSpan(line, 100)} failed${errorLine === undefined ? "" : `: ${codeSpan(errorLine, LONGEST_ERROR)}`}`;
}

function fileFailure({ path, failure }: FileWork): string {
  return `Changing ${codeSpan(path, 160)} failed: ${codeSpan(failure ?? "", LONGEST_ERROR)}`;
}

/** True when the messages show the command that a line names to succeed, or the file it names to be changed. */
function isResolved(text: string, { digest }: Facts): boolean {
  const commands = digest.work.commands().filter((command) => !command.failed && command.key.length >= 4);
  const named = /`([^`]+)`/.exec(text)?.[1];
  const key = named === undefined ? undefined : readCommand(named).key;
  if (commands.some((command) => (key === undefined ? text.includes(command.key) : command.key === key)))
    return true;
  const changed = digest.work
    .files()
    .filter((file) => file.edits > 0 && file.last >= 0 && file.failure === undefined);
  return text.startsWith("Changing ") && changed.some((file) => text.includes(file.path));
}

/** The open items of an earlier summary: those that the messages finished, and those that are still open. */
function openItems(facts: Facts): { done: string[]; open: string[] } {
  const { digest, previous } = facts;
  const continued = [...digest.turns, ...(digest.lastTurn === undefined ? [] : [digest.lastTurn])].find(
    (turn) => turn.request === undefined,
  );
  const request = continued === undefined ? undefined : inheritedRequest(facts);
  const begun = sameness((request ?? "").slice(0, 60));
  const finished = finishedTurns(facts).length;
  const changed = digest.work.files().filter((file) => file.edits > 0 && file.last >= 0);
  const result = { done: [] as string[], open: [] as string[] };
  for (const text of previous.lines.inProgress) {
    // The turn that continues in the messages has its own line.
    if (begun !== "" && sameness(text).startsWith(begun)) continue;
    const touched = changed.some((file) => text.includes(file.path) || text.includes(basename(file.path)));
    if (finished > 0 && touched) result.done.push(text);
    else if (finished < STALE_AFTER) result.open.push(text);
  }
  return result;
}

function finishedTurns({ digest }: Facts): Turn[] {
  const { turns, lastTurn } = digest;
  return lastTurn?.finished === true ? [...turns, lastTurn] : turns;
}

function turnLine(turn: Turn, facts: Facts): string | undefined {
  const request = turn.request ?? inheritedRequest(facts);
  const told: string[] = [];
  if (turn.changes.size > 0) told.push(`changed ${changesOf(turn)}`);
  for (const [, run] of [...turn.runs].slice(-2))
    told.push(`${codeSpan(run.line, 70)} ${run.failed ? "failed" : "succeeded"}`);
  const conclusion = conclusionOf(turn.lastText);
  // In the middle of a turn the newest words are a plan, which the next steps tell.
  if (conclusion !== undefined && (turn.finished || isResult(conclusion)))
    told.push(quote(conclusion, LONGEST_CONCLUSION));
  if (told.length === 0) return undefined;
  if (!turn.finished && turn !== facts.digest.lastTurn) told.push("no closing answer");
  return `${request === undefined ? "" : `${quote(request, LONGEST_REQUEST)} → `}${told.join("; ")}`;
}

function openRequest(turn: Turn, facts: Facts): string | undefined {
  const request = turn.request ?? inheritedRequest(facts);
  return request === undefined ? undefined : `${quote(request, LONGEST_REQUEST)} → not answered yet`;
}

function changesOf(turn: Turn): string {
  const changes = [...turn.changes].sort(([, a], [, b]) => b - a);
  const named = changes
    .slice(0, 4)
    .map(([path, edits]) => `${codeSpan(basename(path), 60)}${edits > 1 ? ` (${edits}×)` : ""}`);
  return named.join(", ") + (changes.length > 4 ? ` and ${changes.length - 4} more` : "");
}

function inAnotherBranch(line: Line): Line {
  return line.text.startsWith("In another branch: ")
    ? line
    : { ...line, text: `In another branch: ${line.text}` };
}

function basename(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1) || path;
}

/** Of the goal's room, for the first and the newest request each; what short ones leave goes to those between. */
const REQUEST_SHARE = 0.48;
const EARLIER_SHARE = 0.22;

const LABEL_ROOM = 50;

const ONLY_SHARE = 1;

/**
 * Requests of the user, word for word: the first request, the newest, and some between. The first request of the
 * first generation survives every update, since its line is taken over as it stands.
 */
export function goalLines(facts: Facts, room: number): Line[] {
  const { purpose, digest, previous } = facts;
  const { firstRequest, newestWords } = digest;
  const isUpdate = previous.lines.goal.length > 0;
  const newest = digest.newestRequest ?? (isUpdate ? undefined : newestWords);
  const isOnly = !isUpdate && (firstRequest === undefined || firstRequest === newest);
  const most = Math.floor((room - LABEL_ROOM) * (isOnly ? ONLY_SHARE : REQUEST_SHARE));
  const lines = isUpdate ? inheritedGoal(previous.lines.goal, newest !== undefined) : [];
  if (newest !== undefined) {
    // The beginning of a turn is about the newest request, whatever the messages before it asked for.
    const label = isOnly && purpose !== "turn-prefix" ? LABELS.firstRequest : LABELS.newestRequest;
    lines.push({ text: `${label}${quote(newest, most)}`, priority: 95, order: 900 });
  }
  if (newestWords !== undefined && newestWords !== newest) {
    lines.push({ text: `${LABELS.newestWords}${quote(newestWords, most)}`, priority: 50, order: 901 });
  }
  if (!isOnly && !isUpdate && firstRequest !== undefined) {
    lines.push({ text: `${LABELS.firstRequest}${quote(firstRequest, most)}`, priority: 100, order: -1 });
  }
  for (const { text, at, score } of digest.sayings.requests()) {
    if (text === newest || (text === firstRequest && !isUpdate)) continue;
    lines.push({
      text: `${LABELS.earlierRequest}${quote(gistOf(text), Math.floor(room * EARLIER_SHARE))}`,
      priority: 20 + score,
      order: 100 + at / digest.messageCount,
    });
  }
  return lines;
}

/** The earlier goal's lines; only the last newest request stays one, and only where there is none newer. */
function inheritedGoal(texts: readonly string[], hasNewer: boolean): Line[] {
  const newest = texts.findLastIndex((text) => text.startsWith(LABELS.newestRequest));
  return texts.flatMap((text, index) => {
    if (text.startsWith(LABELS.newestWords)) return [];
    if (text.startsWith(LABELS.newestRequest)) {
      if (index === newest && !hasNewer) return [{ text, priority: 95, order: 900 }];
      const earlier = `${LABELS.earlierRequest}${text.slice(LABELS.newestRequest.length)}`;
      return [{ text: earlier, priority: 21, order: 90 }];
    }
    const aged = index / 100;
    if (text.startsWith(LABELS.earlierRequest)) return [{ text, priority: 10 + aged, order: 10 + aged }];
    return [{ text, priority: 100 - index, order: index - 500 }];
  });
}

/** The words of the newest request that an earlier summary tells of, without label and quotation marks. */
function inheritedRequest({ previous }: Facts): string | undefined {
  const { goal } = previous.lines;
  const line = goal.findLast((text) => text.startsWith(LABELS.newestRequest)) ?? goal.at(0);
  return line === undefined ? undefined : withoutLabel(line);
}

/** Text between the quotation marks of a line of the goal. */
export function withoutLabel(line: string): string {
  const label = [LABELS.firstRequest, LABELS.earlierRequest, LABELS.newestRequest].find((start) =>
    line.startsWith(start),
  );
  return line.slice(label?.length ?? 0).replace(/^"(.*)"$/, "$1");
}
