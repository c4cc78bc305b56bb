import {
  type ContextMessage,
  isFailedAnswer,
  messageText,
  type ToolResultMessage,
  toolCalls,
} from "@espalier/session-tree";
import { callsWithin } from "../files.ts";
import { type Command, pathsIn, readCommand, subjectOf } from "./commands.ts";
import {
  commandOf,
  isAnnouncement,
  isReason,
  isRepeatable,
  isRequest,
  questionBefore,
  rulesOf,
  saysFinding,
  userWords,
  wholeSentences,
  withOption,
} from "./speech.ts";
import { codeSpan, eachName, type Handle, handlesIn, sameness } from "./text.ts";
import {
  argumentText,
  type CallDescription,
  describeCall,
  documentsIn,
  extractOf,
  isTemporary,
  type Outcome,
  outcomeOf,
  type PlanItem,
} from "./tool-calls.ts";
import { beginTurn, type Turn } from "./turn.ts";

/** Facts of a session for a summary. Messages are added one by one, oldest first; the memory has a limit. */
export type SessionRecord = ReturnType<typeof createSessionRecord>;

/** A call at the end of the messages, with its outcome. */
export interface LatestCall {
  label: string;
  /** Argument of several lines, for example the message of a commit. */
  text: string | undefined;
  /** `pending`: the messages end before its result. `refused` by the user, and `skipped` for another reason: not run. */
  outcome: "succeeded" | "failed" | "refused" | "skipped" | "pending";
  /**
   * Reason of a tool's failure, words of the user who refused the call, or an extract of the output; undefined without
   * any.
   */
  said: string | undefined;
  /** Change of a file by the call, with its first line in quotation marks. */
  change: string | undefined;
}

/** A sentence, and the index of its message. */
interface Saying {
  text: string;
  at: number;
}

/** Reads and changes of one file. */
export interface FileWork {
  path: string;
  reads: number;
  edits: number;
  created: boolean;
  /** Index of the newest message about the file; -1 when only an earlier summary has the file. */
  last: number;
  /** Error of the last attempt to change the file; undefined after a success. */
  failure: string | undefined;
}

/** A command with its last outcome. */
export interface CommandWork extends Command {
  /** Index of the message of the newest run. */
  last: number;
  /** True when the last run failed: a later success replaces an earlier failure. */
  failed: boolean;
  errorLine: string | undefined;
  /** Newest failure that was followed by a success, with the file that was changed last between both. */
  settled?: { errorLine: string; at: number; changed: string | undefined };
}

/** Use of a name: number of messages with it, the newest one, and the file of the last call with it. */
export interface NameUse {
  messages: number;
  last: number;
  home: string | undefined;
}

const KEPT_TURNS = 200;
const KEPT_SAYINGS = 300;
const KEPT_WORKS = 2_000;
const KEPT_NAMES = 20_000;
const KEPT_HANDLES = 1_000;
const KEPT_TEXT = 8_000;
const KEPT_IN_TURN = 50;
const KEPT_CALLS = 6;
const SHORTEST_PASTE = 24;
const KEPT_PRINTED = 1_000_000;

/** Maximum number of characters of a text that are searched for names. */
const SEARCHED = 64_000;

/** Maximum number of characters of each output that are searched for names of documents. */
const SEARCHED_OUTPUT = 8_000;

/** Results of calls that were not run: the user refused them, or a parallel call failed first. */
const NEVER_RUN =
  /\bsibling tool call errored|\bdoesn't want to (?:proceed|take this action)|\b(?:tool (?:use|call)|command) was (?:rejected|denied|cancell?ed|skipped)|^\W*(?:skipped|cancell?ed|aborted) (?:due to|because|by)/i;

/** Of these, the calls that were not refused. */
const SKIPPED = /\bsibling tool call errored|\bwas skipped\b|^\W*skipped /i;

/** Words of a user who refused a call, as agents write them into its result. */
const REFUSAL = /\bthe user said:\s*([\s\S]{1,2000})/i;

/** Text with which agents name the file of an output that is too long for a result. */
const WHOLE_OUTPUT = /\bfull output(?: saved| written)?(?: to)?: (\S{4,300}?)[\]).,]?(?=\s|$)/i;

export const createSessionRecord = () => ({
  messageCount: 0,
  /** First request, and newest text of the user even if it only says "continue". */
  firstRequest: undefined as string | undefined,
  newestWords: undefined as string | undefined,
  /** First command to the agent ("/exit"), for messages without words of the user. */
  command: undefined as string | undefined,
  /** Question of the agent to which the newest text of the user is a short reply. */
  question: undefined as string | undefined,
  /** Turns, oldest first; of a very long session the newest. */
  turns: [] as Turn[],
  /** Task list as it was last written. */
  plan: [] as PlanItem[],
  /** Lasting rules of the user, and sentences of the agent with a choice or a reason, oldest first. */
  rules: [] as Saying[],
  reasons: [] as Saying[],
  /** Handles by their text; the newest is the last. */
  handles: new Map<string, Handle & { times: number; last: number }>(),
  /** Newest calls of the newest turn, oldest first. */
  latest: [] as LatestCall[],
  /** Path of the newest whole output that was too long for its result, with the words before it. */
  wholeOutput: undefined as Handle | undefined,
  files: new Map<string, FileWork>(),
  /** Documents, manifests and workflows of the project that a listing names. */
  documents: new Set<string>(),
  commands: new Map<string, CommandWork>(),
  /** Exact names that people or the agent wrote, not only a tool. */
  names: new Map<string, NameUse>(),
  /** Summaries among the messages, oldest first. */
  summaries: [] as string[],
  branchSummaries: [] as string[],
});

/** Returns the place of a message as a share of the messages: 0 is the first, and almost 1 the last. */
export const share = (at: number, { messageCount }: SessionRecord) => at / Math.max(messageCount, 1);

/** Returns a function that reads the next message into `record`. */
export function sessionReader(record: SessionRecord): (message: ContextMessage) => void {
  const calls = new Map<string, OpenCall[]>();
  /** Newest texts of the agent and of tools. What the user pastes from them is not the user's own. */
  let printed = "";
  let lastChanged: { path: string; at: number } | undefined;

  /** Returns whether the agent or a tool wrote a text before; a few words may be the same by chance. */
  function isPrinted(text: string): boolean {
    const words = sameness(text);
    return words.length >= SHORTEST_PASTE && printed.includes(words);
  }

  function remember(text: string): void {
    printed += ` ${sameness(text.slice(0, SEARCHED))}`;
    if (printed.length > KEPT_PRINTED * 2) printed = printed.slice(-KEPT_PRINTED);
  }

  function currentTurn(): Turn {
    if (record.turns.length === 0) record.turns.push(beginTurn(undefined, record.messageCount));
    return record.turns.at(-1)!;
  }

  function readUser(message: ContextMessage & { role: "user" }): void {
    const said = userWords(message);
    if (said === "") record.command ??= commandOf(message);
    if (said === "") return;
    const at = record.messageCount;
    const answered = record.turns.at(-1)?.lastText ?? "";
    record.question = questionBefore(said, answered);
    const words = withOption(said, answered);
    record.newestWords = words;
    readNames(words);
    readHandles(words);
    if (!isRequest(words)) {
      if (record.turns.length > 0) record.turns.at(-1)!.finished = false;
      return;
    }
    record.firstRequest ??= words;
    for (const text of rulesOf(words)) if (!isPrinted(text)) record.rules.push({ text, at });
    record.turns.push(beginTurn(words, at));
    record.latest = [];
    if (record.turns.length > KEPT_TURNS * 2) record.turns = record.turns.slice(-KEPT_TURNS);
    if (record.rules.length > KEPT_SAYINGS * 2) record.rules = record.rules.slice(-KEPT_SAYINGS);
  }

  function readAssistant(message: ContextMessage & { role: "assistant" }): void {
    const turn = currentTurn();
    const text = messageText(message);
    const asked = toolCalls(message);
    if (text.trim() !== "") {
      turn.lastText = text.slice(0, KEPT_TEXT);
      turn.callsSince = 0;
      turn.committed = undefined;
      if (saysFinding(turn.lastText)) turn.finding = turn.lastText;
      remember(text);
      readNames(text);
      readHandles(text);
      for (const sentence of wholeSentences(text)) {
        if (
          sentence.length < (/\p{Lo}/u.test(sentence) ? 10 : 24) ||
          /[?？:：]$/.test(sentence) ||
          !isReason(sentence) ||
          isAnnouncement(sentence)
        )
          continue;
        if (isRepeatable(sentence)) record.reasons.push({ text: sentence, at: record.messageCount });
      }
      if (record.reasons.length > KEPT_SAYINGS * 2) record.reasons = record.reasons.slice(-KEPT_SAYINGS);
    }
    for (const call of asked) {
      const nested = callsWithin(call);
      const descriptions = nested.map(describeCall);
      calls.set(
        call.id,
        descriptions.map((description) => ({ description, latest: addCall(description) })),
      );
      for (const [index, description] of descriptions.entries()) {
        if (description.plan.length > 0) record.plan = description.plan;
        const given = argumentText(nested[index]!.arguments);
        readNames(given, description.paths.length === 1 ? description.paths[0] : undefined);
      }
    }
    // An answer without text and calls does not change the state of the turn.
    if (asked.length > 0) turn.finished = false;
    else if (text.trim() !== "") turn.finished = !isFailedAnswer(message);
  }

  function readResult(message: ToolResultMessage): void {
    const output = messageText(message);
    remember(output);
    for (const path of message.isError === true ? [] : documentsIn(output.slice(0, SEARCHED_OUTPUT)))
      record.documents.add(path);
    const asked = calls.get(message.toolCallId) ?? [];
    calls.delete(message.toolCallId);
    const isRefused = message.isError === true && NEVER_RUN.test(output.slice(0, 300));
    for (const { description, latest } of asked) {
      if (isRefused) {
        latest.outcome = SKIPPED.test(output.slice(0, 300)) ? "skipped" : "refused";
        latest.said = REFUSAL.exec(output)?.[1]?.trim();
      } else recordOutcome(description, output, message.isError === true, latest);
    }
    const path = WHOLE_OUTPUT.exec(output.slice(0, 500))?.[1] ?? WHOLE_OUTPUT.exec(output.slice(-500))?.[1];
    const line = asked.find(({ description: { command } }) => command !== undefined)?.description.command
      ?.line;
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
    readNames(command);
    const run = readCommand(command);
    const call: CallDescription = { purpose: "run", label: run.line, paths: [], command: run, plan: [] };
    recordOutcome(
      call,
      output,
      typeof message.exitCode === "number" && message.exitCode !== 0,
      addCall(call),
    );
  }

  function addCall({ label, purpose, command, change }: CallDescription): LatestCall {
    const call: LatestCall = { label, text: command?.text, outcome: "pending", said: undefined, change };
    if (purpose !== "plan" && record.latest.push(call) > KEPT_CALLS) record.latest.shift();
    return call;
  }

  function recordOutcome(call: CallDescription, output: string, isError: boolean, latest: LatestCall): void {
    const turn = currentTurn();
    const at = record.messageCount;
    const outcome = outcomeOf(output, { isError, runs: call.command !== undefined && !call.command.reads });
    turn.callsSince++;
    latest.outcome = outcome.failed ? "failed" : "succeeded";
    // The reason of a failed command is among the failures.
    if (outcome.failed) latest.said = call.command === undefined ? outcome.errorLine : undefined;
    else latest.said = extractOf(call, output);
    if (call.purpose !== "other" && !(call.purpose === "read" && outcome.failed)) {
      for (const path of call.paths) {
        const file = touchFile(record, path, at);
        changeFile(file, call, outcome);
        if (call.purpose === "read" || outcome.failed || isTemporary(path)) continue;
        turn.changes.set(path, (turn.changes.get(path) ?? 0) + 1);
        lastChanged = { path, at };
      }
    }
    const { key = "", line = "", reads } = call.command ?? {};
    if (call.command === undefined || key === "") return;
    for (const path of pathsIn(key)) if (!call.paths.includes(path)) touchFile(record, path, at).reads++;
    recordRun(call.command, outcome);
    if (reads) return;
    // Deleted and set again, so that the newest run is last.
    turn.runs.delete(key);
    const subject = subjectOf(line, output);
    turn.runs.set(key, { failed: outcome.failed, subject });
    if (turn.runs.size > KEPT_IN_TURN) turn.runs.delete(turn.runs.keys().next().value!);
    if (!outcome.failed) turn.committed = subject ?? turn.committed;
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
      last: at,
      ...outcome,
      ...(settled ? { settled } : {}),
    });
    forgetOldest(record.commands, KEPT_WORKS);
  }

  function readNames(text: string, home?: string): void {
    eachName(text.slice(0, SEARCHED), (name) => {
      const use = record.names.get(name);
      if (use === undefined) record.names.set(name, { messages: 1, last: record.messageCount, home });
      else {
        if (use.last !== record.messageCount) use.messages++;
        use.last = record.messageCount;
        use.home = home ?? use.home;
      }
    });
    if (record.names.size > KEPT_NAMES * 2) {
      for (const [name, use] of record.names) if (use.messages === 1) record.names.delete(name);
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
    else if (message.role === "compactionSummary") record.summaries.push(messageText(message));
    else if (message.role === "branchSummary") record.branchSummaries.push(messageText(message));
    record.messageCount++;
  };
}

/** A call without a result yet. */
interface OpenCall {
  description: CallDescription;
  latest: LatestCall;
}

/** Returns the file at a path, moved to the end, so that the last touched file is last. */
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
