import {
  type ContextMessage,
  isFailedAnswer,
  messageText,
  type ToolResultMessage,
  toolCalls,
} from "@espalier/session-tree";
import { callsWithin } from "../files.ts";
import { isReason, isRepeatable, isRequest, ruleStrength, splitSentences, userWords } from "./speech.ts";
import { codeSpan, createRarity, eachName, type Handle, handlesIn, type Rarity } from "./text.ts";
import {
  type CallDescription,
  type Command,
  describeCall,
  type Outcome,
  outcomeOf,
  type PlanItem,
  pathsIn,
  readCommand,
} from "./tool-calls.ts";

/** Everything that a summary is written from. Takes messages one by one, oldest first, in memory that does not grow. */
export interface SessionRecord {
  messageCount: number;
  /** The first request, and the newest words of the user even when they only say "continue". */
  firstRequest: string | undefined;
  newestWords: string | undefined;
  /** Oldest first; the heaviest and the newest of a very long session. */
  turns: Turn[];
  /** The task list as it was last written. */
  plan: PlanItem[];
  /** Lasting rules of the user, and sentences of the agent that say what was chosen or why, oldest first. */
  rules: Saying[];
  reasons: Saying[];
  /** By their text; the newest is the last. */
  handles: Map<string, Handle & { times: number; last: number }>;
  /** Path at which the newest output that was too long for its result is whole, with the words before it. */
  wholeOutput: Handle | undefined;
  files: Map<string, FileWork>;
  commands: Map<string, CommandWork>;
  /** Exact names that people or the agent wrote, not only a tool. */
  names: Map<string, NameUse>;
  rarity: Rarity;
  /** Summaries that stand among the messages, oldest first. */
  summaries: string[];
  branchSummaries: string[];
}

/** One request and what was done about it. */
export interface Turn {
  /** Text of the user; undefined for work whose request is before the messages. */
  request: string | undefined;
  /** The message it began at. */
  at: number;
  /** Number of changes of each file. */
  changes: Map<string, number>;
  /** Commands that report their own success, and whether their last run failed; the newest last. */
  runs: Map<string, { line: string; failed: boolean }>;
  calls: number;
  /** The newest prose of the agent. */
  lastText: string;
  /** True when the agent's last message asked for no tool: it had nothing more to do. */
  finished: boolean;
}

/** A sentence, its message, and the degree to which it is what it was kept for. */
export interface Saying {
  text: string;
  at: number;
  strength: number;
}

/** Changes of one file. */
export interface FileWork {
  path: string;
  reads: number;
  edits: number;
  created: boolean;
  /** The newest message about it; -1 where only an earlier summary has it. */
  last: number;
  /** Error of the last attempt to change it; undefined once one succeeded. */
  failure: string | undefined;
}

/** Runs of one command. */
export interface CommandWork extends Command {
  runs: number;
  /** The message of the newest run. */
  last: number;
  /** End of the last run, which decides: a later success settles an earlier failure. */
  failed: boolean;
  errorLine: string | undefined;
  /** The newest failure that a later run settled, with the file that was changed last between the two. */
  settled?: { errorLine: string; at: number; changed: string | undefined };
}

/** Use of a name: messages that have it, the newest, who wrote it, and the file of the last call that had it. */
export interface NameUse {
  messages: number;
  last: number;
  /** Bits of {@link WROTE}. */
  wrote: number;
  home: string | undefined;
}

/** Writers of a name: the more of them, the likelier it is written again. */
export const WROTE = { user: 1, agent: 2, call: 4, output: 8 } as const;

const KEPT_TURNS = 200;
const KEPT_SAYINGS = 300;
const KEPT_WORKS = 2_000;
const KEPT_NAMES = 20_000;
const KEPT_HANDLES = 1_000;
const KEPT_SUMMARIES = 20;
const KEPT_TEXT = 8_000;
const KEPT_IN_TURN = 50;

/** Calls whose result has not come; more than this are never open at once. */
const OPEN_CALLS = 1_000;

/** Characters of a text that are searched for names. */
const SEARCHED = 64_000;

/** Characters of each output that are searched for names that other messages have too. */
const SEARCHED_OUTPUT = 8_000;

/** Results of calls that an agent did not make: the user refused them, or one beside them failed first. */
const NEVER_RUN =
  /\bsibling tool call errored|\bdoesn't want to (?:proceed|take this action)|\b(?:tool (?:use|call)|command) was (?:rejected|denied|cancell?ed|skipped)|^\W*(?:skipped|cancell?ed|aborted) (?:due to|because|by)/i;

/** Agents write the output that is too long for a result into a file, and name it. */
const WHOLE_OUTPUT = /\bfull output(?: saved| written)?(?: to)?: (\S{4,300}?)[\]).,]?(?=\s|$)/i;

export function createSessionRecord(): SessionRecord {
  return {
    messageCount: 0,
    firstRequest: undefined,
    newestWords: undefined,
    turns: [],
    plan: [],
    rules: [],
    reasons: [],
    handles: new Map(),
    wholeOutput: undefined,
    files: new Map(),
    commands: new Map(),
    names: new Map(),
    rarity: createRarity(),
    summaries: [],
    branchSummaries: [],
  };
}

/** A function that reads the next message into `record`. */
export function sessionReader(record: SessionRecord): (message: ContextMessage) => void {
  const calls = new Map<string, CallDescription[]>();
  let lastChanged: { path: string; at: number } | undefined;

  function currentTurn(): Turn {
    if (record.turns.length === 0) record.turns.push(beginTurn(undefined, record.messageCount));
    return record.turns.at(-1)!;
  }

  function readUser(message: ContextMessage & { role: "user" }): void {
    const words = userWords(message);
    if (words === "") return;
    const at = record.messageCount;
    record.newestWords = words;
    record.rarity.read(words);
    readNames(words, WROTE.user);
    readHandles(words);
    if (!isRequest(words)) return;
    record.firstRequest ??= words;
    record.rules.push(...rulesIn(words, at));
    record.turns.push(beginTurn(words, at));
    if (record.turns.length > KEPT_TURNS * 2) record.turns = heaviestTurns(record.turns);
    if (record.rules.length > KEPT_SAYINGS * 2) record.rules = strongest(record.rules);
  }

  function readAssistant(message: ContextMessage & { role: "assistant" }): void {
    const turn = currentTurn();
    const text = messageText(message);
    const asked = toolCalls(message);
    if (text.trim() !== "") {
      turn.lastText = text.slice(0, KEPT_TEXT);
      readNames(text, WROTE.agent);
      readHandles(text);
      for (const sentence of splitSentences(text)) {
        if (sentence.length < 24 || /[?？:：]$/.test(sentence) || !isReason(sentence)) continue;
        if (isRepeatable(sentence))
          record.reasons.push({ text: sentence, at: record.messageCount, strength: 1 });
      }
      if (record.reasons.length > KEPT_SAYINGS * 2) record.reasons = record.reasons.slice(-KEPT_SAYINGS);
    }
    let written = text;
    for (const call of asked) {
      const nested = callsWithin(call);
      const descriptions = nested.map(describeCall);
      if (calls.size >= OPEN_CALLS) calls.delete(calls.keys().next().value!);
      calls.set(call.id, descriptions);
      for (const [index, description] of descriptions.entries()) {
        if (description.plan.length > 0) record.plan = description.plan;
        const given = argumentText(nested[index]!.arguments);
        readNames(given, WROTE.call, description.paths.length === 1 ? description.paths[0] : undefined);
        written += `\n${given}`;
      }
    }
    record.rarity.read(written);
    // An answer without text and calls says nothing of the state that the turn is in.
    if (asked.length > 0) turn.finished = false;
    else if (text.trim() !== "") turn.finished = !isFailedAnswer(message);
  }

  function readResult(message: ToolResultMessage): void {
    const output = messageText(message);
    record.rarity.read(output);
    readNames(output.slice(0, SEARCHED_OUTPUT), WROTE.output);
    const asked = calls.get(message.toolCallId) ?? [];
    calls.delete(message.toolCallId);
    currentTurn().finished = false;
    if (message.isError !== true || !NEVER_RUN.test(output.slice(0, 300)))
      for (const call of asked) recordOutcome(call, output, message.isError === true);
    const path = WHOLE_OUTPUT.exec(output.slice(0, 500))?.[1] ?? WHOLE_OUTPUT.exec(output.slice(-500))?.[1];
    const line = asked.find(({ command }) => command !== undefined)?.command?.line;
    if (path !== undefined)
      record.wholeOutput = {
        text: path,
        words: `whole output of ${line === undefined ? "a call" : codeSpan(line, 60)}: `,
      };
  }

  function readBashExecution(message: ContextMessage & { role: "bashExecution" }): void {
    if (message.excludeFromContext === true) return;
    const command = typeof message.command === "string" ? message.command : "";
    const output = typeof message.output === "string" ? message.output : "";
    record.rarity.read(`${command}\n${output}`);
    readNames(command, WROTE.user);
    const call: CallDescription = { purpose: "run", paths: [], command: readCommand(command), plan: [] };
    recordOutcome(call, output, typeof message.exitCode === "number" && message.exitCode !== 0);
  }

  function recordOutcome(call: CallDescription, output: string, isError: boolean): void {
    const turn = currentTurn();
    const at = record.messageCount;
    const outcome = outcomeOf(output, { isError, runs: call.command !== undefined && !call.command.reads });
    turn.calls++;
    if (call.purpose !== "other" && !(call.purpose === "read" && outcome.failed)) {
      for (const path of call.paths) {
        const file = touchFile(record, path, at);
        changeFile(file, call, outcome);
        if (call.purpose === "read" || outcome.failed) continue;
        if (turn.changes.size < KEPT_IN_TURN || turn.changes.has(path))
          turn.changes.set(path, (turn.changes.get(path) ?? 0) + 1);
        lastChanged = { path, at };
      }
    }
    if (call.command === undefined || call.command.key === "") return;
    for (const path of pathsIn(call.command.key))
      if (!call.paths.includes(path)) touchFile(record, path, at).reads++;
    recordRun(call.command, outcome);
    if (call.command.reads) return;
    // Set anew, so that the newest run stands last.
    turn.runs.delete(call.command.key);
    if (turn.runs.size < KEPT_IN_TURN)
      turn.runs.set(call.command.key, { line: call.command.line, failed: outcome.failed });
  }

  function recordRun(command: Command, outcome: Outcome): void {
    const at = record.messageCount;
    const before = record.commands.get(command.key);
    const isSettled = before?.failed === true && !outcome.failed && before.errorLine !== undefined;
    const settled = isSettled
      ? {
          errorLine: before.errorLine!,
          at: before.last,
          changed: lastChanged && lastChanged.at > before.last ? lastChanged.path : undefined,
        }
      : before?.settled;
    record.commands.delete(command.key);
    record.commands.set(command.key, {
      ...command,
      runs: (before?.runs ?? 0) + 1,
      last: at,
      ...outcome,
      ...(settled ? { settled } : {}),
    });
    forgetOldest(record.commands, KEPT_WORKS);
  }

  function readNames(text: string, writer: number, home?: string): void {
    eachName(text.slice(0, SEARCHED), (name) => {
      const use = record.names.get(name);
      const isSaid = writer !== WROTE.output;
      if (use === undefined)
        record.names.set(name, { messages: isSaid ? 1 : 0, last: record.messageCount, wrote: writer, home });
      else {
        use.wrote |= writer;
        if (!isSaid) return;
        if (use.last !== record.messageCount || use.messages === 0) use.messages++;
        use.last = record.messageCount;
        use.home = home ?? use.home;
      }
    });
    if (record.names.size > KEPT_NAMES * 2) {
      for (const [name, use] of record.names) if (use.messages <= 1) record.names.delete(name);
      forgetOldest(record.names, KEPT_NAMES);
    }
  }

  function readHandles(text: string): void {
    for (const handle of handlesIn(text.slice(0, SEARCHED))) {
      const times = (record.handles.get(handle.text)?.times ?? 0) + 1;
      record.handles.delete(handle.text);
      record.handles.set(handle.text, { ...handle, times, last: record.messageCount });
    }
    forgetOldest(record.handles, KEPT_HANDLES);
  }

  return (message) => {
    if (message.role === "user") readUser(message);
    else if (message.role === "assistant") readAssistant(message);
    else if (message.role === "toolResult") readResult(message);
    else if (message.role === "bashExecution") readBashExecution(message);
    else if (message.role === "compactionSummary") keepNewest(record.summaries, messageText(message));
    else if (message.role === "branchSummary") keepNewest(record.branchSummaries, messageText(message));
    else if (message.role === "custom") record.rarity.read(messageText(message));
    record.messageCount++;
  };
}

/** The sentences of a user that read like lasting rules. */
export function rulesIn(words: string, at: number): Saying[] {
  return splitSentences(words)
    .map((text) => ({ text, at, strength: isRepeatable(text) ? ruleStrength(text) : 0 }))
    .filter(({ strength }) => strength > 0);
}

function keepNewest(summaries: string[], text: string): void {
  summaries.push(text);
  if (summaries.length > KEPT_SUMMARIES) summaries.shift();
}

function beginTurn(request: string | undefined, at: number): Turn {
  return { request, at, changes: new Map(), runs: new Map(), calls: 0, lastText: "", finished: false };
}

/** Weight of a turn in a summary. */
export function turnWeight(turn: Turn): number {
  let edits = 0;
  for (const count of turn.changes.values()) edits += count;
  return Math.log1p(2 * edits + turn.runs.size + 0.2 * turn.calls) + (turn.request === undefined ? 0 : 0.5);
}

/** The newest quarter, and the heaviest of the rest. */
function heaviestTurns(turns: readonly Turn[]): Turn[] {
  const newest = turns.slice(-KEPT_TURNS / 4);
  const older = turns.slice(0, -newest.length).sort((a, b) => turnWeight(b) - turnWeight(a));
  return [...older.slice(0, KEPT_TURNS - newest.length).sort((a, b) => a.at - b.at), ...newest];
}

function strongest(sayings: readonly Saying[]): Saying[] {
  return sayings
    .toSorted((a, b) => b.strength - a.strength || b.at - a.at)
    .slice(0, KEPT_SAYINGS)
    .sort((a, b) => a.at - b.at);
}

/** The file at a path, set anew so that the one touched last stands last. */
function touchFile({ files }: SessionRecord, path: string, at: number): FileWork {
  const file = files.get(path) ?? { path, reads: 0, edits: 0, created: false, last: at, failure: undefined };
  file.last = at;
  files.delete(path);
  files.set(path, file);
  forgetOldest(files, KEPT_WORKS);
  return file;
}

function changeFile(file: FileWork, { purpose }: CallDescription, outcome: Outcome): void {
  if (purpose === "read") file.reads++;
  else if (outcome.failed) {
    if (purpose !== "run") file.failure = outcome.errorLine ?? "no reason given";
  } else {
    if (purpose === "write" && file.reads === 0 && file.edits === 0) file.created = true;
    file.edits++;
    file.failure = undefined;
  }
}

function forgetOldest(map: Map<string, unknown>, kept: number): void {
  if (map.size < kept * 2) return;
  for (const key of map.keys()) {
    if (map.size <= kept) break;
    map.delete(key);
  }
}

/** The strings inside a call's arguments, a line each. Nested deeper than eight levels nothing is of interest. */
function argumentText(value: unknown, depth = 8): string {
  if (typeof value === "string") return value;
  if (typeof value !== "object" || value === null || depth === 0) return "";
  return Object.values(value)
    .map((part) => argumentText(part, depth - 1))
    .join("\n");
}
