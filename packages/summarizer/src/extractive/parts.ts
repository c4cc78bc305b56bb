// Separate from summarizer.ts: each section has a writer here; the summarizer shares the room among them.
import { completes, hasSameAim, isProbe, leavesConflict, readCommand, resolvesConflict } from "./commands.ts";
import {
  type Facts,
  inheritedLines,
  inheritedRequest,
  inOtherBranch,
  LABELS,
  type Line,
  OWN_STEP,
  type Part,
  type PreviousSummary,
  shortened,
} from "./lines.ts";
import { type CommandWork, type LatestCall, type SessionRecord, share } from "./session.ts";
import {
  conclusionsOf,
  isPlan,
  isRepeatable,
  ownLinesFirst,
  rulesOf,
  saysFinding,
  splitSentences,
} from "./speech.ts";
import {
  addsTerms,
  basename,
  codeSpan,
  endsSentence,
  quote,
  quoteEnds,
  quoteLines,
  sameness,
} from "./text.ts";
import { type PlanItem, SAYS_WHY } from "./tool-calls.ts";
import { changesOf, resultOf, type Turn } from "./turn.ts";

const LONGEST_RULE = 220;

/** Priority of a line that matches the user's focus. */
export const FOCUS = 5;
/** Returns whether a later turn follows, which has a summary of its own: then no turn here is the newest one. */
const isFollowed = ({ later }: Facts): boolean => later.turns[0]?.request !== undefined;
const isNewest = (turn: Turn, facts: Facts) => turn === facts.record.turns.at(-1) && !isFollowed(facts);
const isOpen = (turn: Turn, facts: Facts) => isNewest(turn, facts) && !turn.finished;
const CONCLUSIONS = 6;
const LONGEST_CONCLUSION = 1_000;
const LONGEST_REQUEST = 400;
const SHOWN_CALLS = 4;
const LONGEST_CALL = 140;
const LONGEST_SAID = 240;
const LONGEST_TEXT = 400;
const LONGEST_DECISION = 260;
const LONGEST_COMMAND = 90;
const LONGEST_ERROR = 220;
const LONGEST_PAST_ERROR = 130;
const GO_ON = "Go on with the newest request.";
const LONGEST_STEP = 200;
const LONGEST_PLACE = 360;
const LONGEST_SUBJECT = 80;
const NOT_REPEATED = "it was not repeated";

/** Writers of the lines of every part that consists of words. `told` is the text of the parts before. */
export const WRITERS: Record<
  Exclude<Part, "critical">,
  (facts: Facts, room: number, told: string) => Line[]
> = {
  goal: goalLines,
  constraints: constraintLines,
  inProgress: inProgressLines,
  done: doneLines,
  decisions: decisionLines,
  blocked: blockedLines,
  nextSteps: nextStepLines,
};

/**
 * Returns the first request and the newest one, each with both ends. The first request of the first summary is kept in
 * every update.
 */
function goalLines(facts: Facts, room: number): Line[] {
  const { isTurnPrefix, record, previous } = facts;
  const { firstRequest, newestWords, command, question } = record;
  const isUpdate = previous.lines.goal.length > 0;
  const isPast = isFollowed(facts);
  const newest =
    (isPast ? undefined : record.turns.findLast(({ request }) => request !== undefined)?.request) ??
    (isUpdate ? undefined : ((isPast ? firstRequest : newestWords) ?? command));
  const isOnly = !isUpdate && (firstRequest === undefined || firstRequest === newest);
  const most = Math.floor((room - 60) * (isOnly ? 1 : 0.5));
  const said = (label: string, words: string, priority: number, order: number): Line[] =>
    quoteLines(words.length > most ? ownLinesFirst(words) : words, most).map((text, index) => {
      const rest = index / 100;
      return {
        text: `${index === 0 ? label : LABELS.goesOn}${text}`,
        priority: priority - rest,
        order: order + rest,
      };
    });
  const lines = inheritedGoal(previous.lines, newest !== undefined || isPast);
  if (newest !== undefined)
    lines.push(
      ...said(isOnly && !isTurnPrefix ? LABELS.firstRequest : LABELS.newestRequest, newest, 95, 900),
    );
  if (isPast) return lines;
  if (newestWords !== undefined && newestWords !== newest)
    lines.push(...said(LABELS.newestWords, newestWords, 50, 901));
  if (question !== undefined)
    lines.push({ text: `${LABELS.question}${quote(question, LONGEST_STEP)}`, priority: 49, order: 902 });
  if (!isOnly && !isUpdate && firstRequest !== undefined)
    lines.push(...said(LABELS.firstRequest, firstRequest, 100, -1));
  return lines;
}

/**
 * Returns the earlier goal's lines; a request that is no longer the newest is left out if a line of the completed work
 * has it.
 */
function inheritedGoal({ goal, done, inProgress }: PreviousSummary["lines"], hasNewer: boolean): Line[] {
  const newest = goal.findLastIndex((text) => text.startsWith(LABELS.newestRequest));
  /** Index of the first line of the current text. */
  let begun = -1;
  return goal.flatMap((text, index) => {
    const priority = 100 - index / 100;
    const goesOn = text.startsWith(LABELS.goesOn);
    if (!goesOn) begun = index;
    const first = goal[begun] ?? "";
    if (first.startsWith(LABELS.newestWords) || first.startsWith(LABELS.question)) return [];
    const isRequest = first.startsWith(LABELS.newestRequest);
    // The rest of a request follows its beginning, and has a low priority.
    if (goesOn && isRequest)
      return begun < newest || hasNewer ? [] : [{ text, priority: 10, order: 900 + (index - newest) / 100 }];
    if (!isRequest) return [{ text, priority: goesOn ? 10 : priority, order: index - 500 }];
    if (index === newest && !hasNewer) return [{ text, priority: 95, order: 900 }];
    const words = text.slice(LABELS.newestRequest.length);
    const isTold = [...done, ...inProgress].some((line) => isTurnOf(line, words));
    return isTold ? [] : [{ text: `${LABELS.earlierRequest}${words}`, priority: 20, order: index }];
  });
}

/**
 * Returns rules and corrections in the user's words. The oldest ones are usually permanent rules, and keep half of the
 * room even if many others follow; the other half is for the newest. Rules in the goal are not repeated.
 */
function constraintLines(facts: Facts, room: number, told: string): Line[] {
  const { record, previous, focus } = facts;
  let standing = 0;
  const lines = previous.lines.constraints.map((text, index): Line => {
    standing += text.length + 3;
    return { text, priority: standing <= room / 2 ? 100 : 1 + index / 1_000, order: index - 1_000 };
  });
  // The request that was the newest in the earlier summary is no longer quoted in full.
  const isQuoted = !isFollowed(facts) && record.turns.every((turn) => turn.request === undefined);
  const request = isQuoted ? undefined : inheritedRequest(facts);
  const rules = [...rulesOf(request ?? "").map((text) => ({ text, at: -1 })), ...record.rules];
  for (const { text, at } of rules) {
    if (told.includes(quote(text, LONGEST_RULE).slice(1, -1))) continue;
    const priority = 2 + share(at, record) + (focus(text) ? FOCUS : 0);
    lines.push({ text: quote(text, LONGEST_RULE), priority, order: at });
  }
  return lines;
}

/**
 * Returns finished work, one line per turn: the request, the changes, their checks, and the agent's conclusion. When
 * there are too many turns for that, the others have only the beginning of their request, and their commit: a list of
 * nearly all turns is worth more than fragments of some.
 */
function doneLines(facts: Facts, room: number): Line[] {
  const { record, previous, branches, focus } = facts;
  const earlier = withWholeRequest([...previous.lines.done, ...continuedItems(facts)], facts);
  const closed = record.turns.filter((turn) => !isOpen(turn, facts));
  const told = closed.flatMap((turn) => {
    const text = turnLine(turn, facts);
    if (text === undefined) return [];
    // A turn whose request is before the messages is told nowhere else.
    const isFirst = turn === closed.at(-1) || turn.request === undefined || focus(text);
    const priority = 2 * share(turn.at, record) + (isFirst ? FOCUS : 0);
    return { text, priority, order: turn.at };
  });
  const lines = shortened([...inheritedLines(earlier, 2.5), ...told], room);
  lines.push(...inheritedLines(branches.lines.done.map(inOtherBranch), 0.8));
  for (const item of tasksOf(facts)) {
    if (item.state === "done")
      lines.push({
        text: `${LABELS.taskDone}${quote(item.text, 120)}`,
        priority: 0.4,
        order: record.messageCount,
      });
  }
  return lines;
}

/** Returns the work that is in progress at the end of the messages, and its newest calls with their outcomes. */
function inProgressLines(facts: Facts): Line[] {
  const { isTurnPrefix, record, previous } = facts;
  const lastTurn = record.turns.at(-1);
  const goesOn = previous.lines.inProgress.filter((line) => !line.startsWith(LABELS.taskDoing));
  const lines = lastTurn === undefined ? inheritedLines(goesOn, 1) : [];
  if (lastTurn !== undefined && isOpen(lastTurn, facts)) {
    const text = turnLine(lastTurn, facts);
    if (text !== undefined) lines.push({ text, priority: 20, order: 0 });
    // The calls after the beginning of a turn are kept, and show its state.
    for (const [index, call] of isTurnPrefix ? [] : record.latest.slice(-SHOWN_CALLS).entries())
      lines.push({ text: callLine(call), priority: 10 + index, order: 10 + index });
  }
  const tasks = previous.lines.inProgress.filter((line) => line.startsWith(LABELS.taskDoing));
  for (const text of hasTaskList(facts) ? [] : tasks) lines.push({ text, priority: 8, order: 1 });
  for (const item of tasksOf(facts)) {
    if (item.state === "doing")
      lines.push({ text: `${LABELS.taskDoing}${quote(item.text, 120)}`, priority: 19, order: 1 });
  }
  return lines;
}

/** Returns whether the agent wrote its task list again after the earlier summary. */
const hasTaskList = ({ record, later }: Facts) => record.plan.length > 0 || later.plan.length > 0;

/** Returns the task list; none when later messages, which have a summary of their own, write it again. */
const tasksOf = ({ record, later }: Facts): readonly PlanItem[] => (later.plan.length > 0 ? [] : record.plan);

function callLine({ label, text, outcome, said, change }: LatestCall): string {
  const call = `${LABELS.called}${codeSpan(label, LONGEST_CALL)}`;
  if (outcome === "succeeded" && change !== undefined) return `${call} → ${change}`;
  if (outcome === "succeeded")
    return said === undefined
      ? call
      : `${call} → ${said === "" ? "no output" : quoteEnds(said, LONGEST_SAID)}`;
  const unsent = unsentText(text, "");
  if (outcome === "pending") return `${call}, no result yet${unsent}`;
  const why = said === undefined ? "" : `: ${quote(said, LONGEST_SAID)}`;
  return `${call} ${NOT_DONE[outcome]}${why}${unsent}`;
}

const NOT_DONE = { failed: "failed", refused: "was refused", skipped: "was not run" } as const;

/**
 * Returns the text of a call that did not succeed, for example the message of a commit, unless the summary already has
 * it.
 */
function unsentText(text: string | undefined, told: string): string {
  const quotation = text === undefined ? "" : quote(text, LONGEST_TEXT);
  return quotation === "" || told.includes(quotation.slice(0, 60)) ? "" : `; its text: ${quotation}`;
}

/**
 * Returns the items in progress of an earlier summary. The line of the turn that these messages continue is returned
 * only if it has a finding, which the messages do not repeat.
 */
function continuedItems(facts: Facts): string[] {
  const { record, previous } = facts;
  if (record.turns.length === 0) return [];
  return previous.lines.inProgress.flatMap((text) => {
    if (text.startsWith(LABELS.taskDoing) || text.startsWith(LABELS.called)) return [];
    if (!isContinued(text, facts)) return [text];
    const said = /→.*?"(.*)"/.exec(text)?.[1] ?? "";
    return saysFinding(said) ? [text.replace(/; not finished yet$/, "")] : [];
  });
}

/** Returns whether a line is about the turn in whose middle the messages begin. */
const isContinued = (line: string, facts: Facts): boolean =>
  goesOn(facts) && isTurnOf(line, inheritedRequest(facts) ?? "");

/** Returns whether the messages begin in the middle of a turn. */
const goesOn = ({ record }: Facts): boolean => record.turns[0]?.request === undefined;

/**
 * Returns lines of an earlier summary. The last line about its newest turn gets the whole request, which the summary's
 * goal has. Does nothing for a turn that continues in the messages: it has a line of its own.
 */
function withWholeRequest(lines: readonly string[], facts: Facts): readonly string[] {
  const request = inheritedRequest(facts);
  if (request === undefined || goesOn(facts)) return lines;
  const at = lines.findLastIndex((line) => isTurnOf(line, request));
  return lines.map((line, index) =>
    index === at ? line.replace(/^"[^"]*"/, () => quote(request, LONGEST_REQUEST)) : line,
  );
}

/** Returns whether a line is about the turn that began with a request; the line may have only its first words. */
function isTurnOf(line: string, request: string): boolean {
  const begun = /^"([^"…]{8,40})/.exec(line)?.[1];
  return begun !== undefined && sameness(request).startsWith(sameness(begun));
}

function turnLine(turn: Turn, facts: Facts): string | undefined {
  const request = turn.request ?? inheritedRequest(facts);
  const told: string[] = [];
  if (turn.changes.size > 0) told.push(`changed ${changesOf(turn, isOpen(turn, facts) ? 6 : 1)}`);
  told.push(...resultOf(turn));
  // The last words of an unfinished turn may only announce a call.
  const said = turn.finished || turn.finding === "" ? turn.lastText : turn.finding;
  // An item of a list without a full stop would run into the next one.
  const sentences = conclusionsOf(said, CONCLUSIONS).map((each) => (endsSentence(each) ? each : `${each} …`));
  const conclusions = sentences.join(" ").replace(/ …$/, "");
  if (conclusions !== "") told.push(quote(conclusions, LONGEST_CONCLUSION));
  if (request === undefined && told.length === 0) return undefined;
  if (!turn.finished) told.push(isOpen(turn, facts) ? "not finished yet" : "no closing answer");
  if (request === undefined) return told.join("; ");
  if (told.length === 0) told.push(said.trim() === "" ? "no answer" : quote(said, LONGEST_CONCLUSION));
  // The goal has the newest request in full.
  return `${quote(ownLinesFirst(request), isNewest(turn, facts) ? 60 : LONGEST_REQUEST)} → ${told.join("; ")}`;
}

/**
 * Returns sentences of the agent with a choice, a rejection or a reason, unless a line of the completed work has them.
 */
function decisionLines({ record, previous, branches, focus }: Facts, _room: number, told: string): Line[] {
  // A model's earlier wording has priority over a quotation.
  const byModel = previous.lines.decisions.some((text) => !text.startsWith('"'));
  const lines = [
    ...inheritedLines(previous.lines.decisions, byModel ? 4 : 1.5),
    ...inheritedLines(branches.lines.decisions, 1),
  ];
  const known = new Set<string>();
  // Of two sentences with the same reason, the newer one is told.
  const reasons = record.reasons.filter(
    ({ text }) => !told.includes(quote(text, LONGEST_DECISION).slice(1, 40)),
  );
  const novel = reasons.toReversed().filter(({ text }) => addsTerms(text, known));
  for (const { text, at } of novel.toReversed()) {
    const priority = 1 + share(at, record) + (focus(text) ? FOCUS : 0);
    lines.push({ text: quote(text, LONGEST_DECISION), priority, order: at });
  }
  return lines;
}

/** Returns the newest successful check of the same turn after a failure. */
function checkAfter({ last }: CommandWork, turn: Turn, { record }: Facts): CommandWork | undefined {
  const end = record.turns.find(({ at }) => at > turn.at)?.at ?? Number.POSITIVE_INFINITY;
  return [...record.commands.values()].findLast(
    (each) => !each.failed && !each.reads && !isProbe(each.key) && each.last > last && each.last < end,
  );
}

/** Returns current obstacles, newest last, and failures with their solutions. */
function blockedLines(facts: Facts, _room: number, told: string): Line[] {
  const { record, later: after, previous, branches } = facts;
  const unresolved = previous.lines.blocked.filter(
    (text) => ![record, after].some((each) => isResolved(text, each)),
  );
  const lines = inheritedLines(
    unresolved
      .slice(-4)
      .flatMap((text) => withOutcome(text, record))
      .flatMap((text) => withOutcome(text, after)),
    0.9,
  );
  lines.push(...inheritedLines(branches.lines.blocked.map(inOtherBranch), 0.3));
  const add = (text: string, at: number, priority: number) =>
    lines.push({ text, priority: priority + share(at, record), order: at });
  const isCurrent = (at: number) => at >= (record.turns.at(-2)?.at ?? 0);
  const commands = [...record.commands.values()];
  for (const [index, command] of commands.entries()) {
    if (command.reads) continue;
    const { settled, errorLine, failed, last } = command;
    const call = codeSpan(command.line, LONGEST_COMMAND);
    const later = [...commands.slice(index + 1), ...after.commands.values()];
    const cause = failed ? errorLine : settled?.errorLine;
    const stops = leavesConflict(command);
    const turn = record.turns.findLast(({ at }) => at <= last);
    const afterwards = turn?.finished && !stops ? checkAfter(command, turn, facts) : undefined;
    const isBlocking = failed && afterwards === undefined && (stops || isCurrent(last));
    const says =
      cause === undefined ? "" : `: ${codeSpan(cause, isBlocking ? LONGEST_ERROR : LONGEST_PAST_ERROR)}`;
    if (!failed) {
      if (settled === undefined || !SAYS_WHY.test(settled.errorLine)) continue;
      const cure =
        settled.changed === undefined
          ? "a later run succeeded"
          : `${codeSpan(basename(settled.changed), 60)} was changed, then it succeeded`;
      add(`${call} had failed${says}; ${cure}`, settled.at, 0.5);
      continue;
    }
    const helped =
      later.find((each) => !each.failed && completes(each.key, command.key)) ??
      (stops ? later.find((each) => !each.failed && resolvesConflict(each.key)) : undefined);
    if (helped !== undefined)
      add(`${call} had failed${says}; ${codeSpan(helped.line, LONGEST_COMMAND)} succeeded`, last, 0.5);
    else if (later.some((each) => hasSameAim(each.key, command.key))) continue;
    else if (afterwards !== undefined)
      add(
        `${call} had failed${says}; afterwards ${codeSpan(afterwards.line, LONGEST_COMMAND)} succeeded`,
        last,
        0.6,
      );
    else if (isBlocking) add(`${call} failed${says}${unsentText(command.text, told)}`, last, 2);
    else if (errorLine !== undefined) add(`${call} had failed${says}; ${NOT_REPEATED}`, last, 0.6);
  }
  for (const { path, failure, last } of record.files.values()) {
    if (failure !== undefined && isCurrent(last))
      add(`Changing ${codeSpan(path, 160)} failed: ${codeSpan(failure, LONGEST_ERROR)}`, last, 2);
  }
  return lines;
}

/**
 * Returns whether the messages show success of the command that a line names, or a change of the file that it names.
 */
function isResolved(text: string, { commands, files }: SessionRecord): boolean {
  const named = /`([^`]+)`/.exec(text)?.[1];
  const key = named === undefined ? undefined : readCommand(named).key;
  for (const command of commands.values()) {
    if (command.failed || command.key.length < 4) continue;
    if (key === undefined ? text.includes(command.key) : command.key === key) return true;
  }
  if (!text.startsWith("Changing ")) return false;
  return [...files.values()].some(
    ({ path, edits, failure }) => edits > 0 && failure === undefined && text.includes(path),
  );
}

/**
 * Returns the line of a failure as a past one when a later command completed it, or when two other requests followed;
 * nothing when the same command failed again, because a newer line says that.
 */
function withOutcome(text: string, { commands, turns }: SessionRecord): string[] {
  const [opening, span] = /^`([^`]+)` failed/.exec(text) ?? [];
  if (opening === undefined || span === undefined) return [text];
  const { key } = readCommand(span);
  const later = [...commands.values()];
  const helped = later.find((command) => !command.failed && completes(command.key, key));
  if (helped === undefined && later.some((command) => hasSameAim(command.key, key))) return [];
  const requests = turns.filter(({ request }) => request !== undefined).length;
  if (helped === undefined && (requests < 2 || leavesConflict({ key, errorLine: text }))) return [text];
  const outcome = helped === undefined ? NOT_REPEATED : `${codeSpan(helped.line, LONGEST_COMMAND)} succeeded`;
  return [`${text.replace(opening, () => `\`${span}\` had failed`)}; ${outcome}`];
}

/** Returns next steps: the open tasks and unticked boxes, else the newest plan; and the agent's closing question. */
function nextStepLines(facts: Facts): Line[] {
  const { record, previous } = facts;
  const lines: Line[] = [];
  const add = (text: string, priority: number) => lines.push({ text, priority, order: lines.length });
  const open = tasksOf(facts).filter((item) => item.state === "open");
  const lastTurn = isFollowed(facts) ? undefined : record.turns.at(-1);
  const lastText = record.turns.at(-1)?.lastText ?? "";
  const said = splitSentences(lastText).filter((sentence) => sentence.length >= 12 && isRepeatable(sentence));
  const planned = said.findLast((sentence) => isPlan(sentence));
  if (lastTurn !== undefined && !lastTurn.finished) {
    const about = said.filter((each, at) => each === planned || at >= said.length - 2).join(" ");
    if (record.latest.at(-1)?.outcome === "refused")
      add("The user refused the newest call: repeat it only if the user asks for it.", 7);
    const { callsSince, committed } = lastTurn;
    const since =
      committed !== undefined
        ? `; then it committed ${quote(committed, LONGEST_SUBJECT)}`
        : callsSince > 1
          ? `; ${callsSince} calls followed`
          : "";
    add(about === "" ? GO_ON : `The agent was at: ${quote(about, LONGEST_PLACE)}${since}`, 6);
  }
  for (const [index, item] of open.entries())
    add(`${LABELS.taskOpen}${quote(item.text, LONGEST_STEP)}`, 5 - index / 100);
  const unticked = [...lastText.matchAll(/^\s*[-*]\s+\[ \]\s+(.{1,400})$/gm)].slice(0, 10);
  for (const [index, match] of unticked.entries())
    add(`${LABELS.notTicked}${quote(match[1]!, LONGEST_STEP)}`, 4 - index / 100);
  if (lastTurn?.finished) {
    const question = said.findLast((sentence) => /[?？]$/.test(sentence)) ?? planned;
    const closing =
      question === undefined ? "." : `; the answer closed with: ${quote(question, LONGEST_STEP)}`;
    add(`The newest request was answered${closing}`, 3);
  }
  // Steps of an earlier summary are outdated as soon as work continued; its tasks when the list is written again.
  const isDue = (text: string) =>
    text.startsWith(LABELS.taskOpen)
      ? !hasTaskList(facts)
      : record.turns.length === 0 || (record.turns.length <= 2 && open.length === 0 && !OWN_STEP.test(text));
  return [...inheritedLines(previous.lines.nextSteps.filter(isDue), 2), ...lines];
}
