import {
  type ContextMessage,
  isFailedAnswer,
  messageText,
  type ToolResultMessage,
  toolCalls,
} from "@espalier/session-tree";
import { callsWithin } from "../files.ts";
import type { SummaryPurpose } from "../summarizer.ts";
import { createStringIndex, type StringIndex, stringCount } from "./exact-string.ts";
import type { PreviousSummary } from "./summarizer.ts";
import {
  createRanking,
  decisionStrength,
  gistOf,
  isRequest,
  isResult,
  ruleStrength,
  splitSentences,
  userWords,
} from "./text.ts";
import {
  type CallDescription,
  type Command,
  describeCall,
  type Outcome,
  outcomeOf,
  type PlanItem,
  readCommand,
} from "./tool-calls.ts";

/** Digest of a session's messages: everything that a summary is written from. */
export interface SessionDigest {
  messageCount: number;
  /** The first request, and the newest words of the user even when they only say "continue". */
  firstRequest: string | undefined;
  newestRequest: string | undefined;
  newestWords: string | undefined;
  /** Turns with the most work and the newest, oldest first, without the last. */
  turns: Turn[];
  lastTurn: Turn | undefined;
  /** The task list as it was last written. */
  plan: PlanItem[];
  sayings: Sayings;
  work: WorkLog;
  strings: StringIndex;
  /** Summaries that stand among the messages, oldest first. */
  summaries: string[];
  branchSummaries: string[];
}

/** Takes messages one by one, oldest first; `digest` is what they came to so far. */
interface DigestBuilder {
  readonly digest: SessionDigest;
  add(message: ContextMessage, index: number): void;
}

/** Calls whose result has not come; more than this are never open at once. */
const OPEN_CALLS = 1_000;
const KEPT_TURNS = 80;
const KEPT_SUMMARIES = 20;
const KEPT_TEXT = 8_000;

export function createDigestBuilder(messageCount: number, focus: (text: string) => boolean): DigestBuilder {
  const calls = new Map<string, CallDescription[]>();
  const turns = createRanking<Turn>(KEPT_TURNS);
  const digest: SessionDigest = {
    messageCount,
    firstRequest: undefined,
    newestRequest: undefined,
    newestWords: undefined,
    get turns() {
      return turns.items();
    },
    lastTurn: undefined,
    plan: [],
    sayings: createSayings(messageCount, focus),
    work: createWorkLog(),
    strings: createStringIndex(),
    summaries: [],
    branchSummaries: [],
  };

  function currentTurn(index: number): Turn {
    digest.lastTurn ??= beginTurn(undefined, index);
    return digest.lastTurn;
  }

  function readUser(message: ContextMessage & { role: "user" }, index: number): void {
    const words = userWords(message);
    digest.strings.read(words, { author: "user", message: index });
    if (words === "") return;
    digest.newestWords = words;
    if (!isRequest(words)) return;
    digest.firstRequest ??= words;
    digest.newestRequest = words;
    digest.sayings.request(words, index);
    const { lastTurn } = digest;
    if (lastTurn !== undefined) turns.add(lastTurn, turnWeight(lastTurn) + (3 * lastTurn.at) / messageCount);
    digest.lastTurn = beginTurn(words, index);
  }

  function readAssistant(message: ContextMessage & { role: "assistant" }, index: number): void {
    const turn = currentTurn(index);
    const text = messageText(message);
    digest.strings.read(text, { author: "assistant", message: index });
    digest.sayings.answer(text, index);
    const hasText = text.trim() !== "";
    if (hasText) turn.lastText = text.slice(0, KEPT_TEXT);
    const asked = toolCalls(message);
    for (const call of asked) {
      const nested = callsWithin(call);
      const descriptions = nested.map(describeCall);
      if (calls.size >= OPEN_CALLS) calls.delete(calls.keys().next().value!);
      calls.set(call.id, descriptions);
      for (const [at, description] of descriptions.entries()) {
        if (description.plan.length > 0) digest.plan = description.plan;
        digest.strings.read(argumentText(nested[at]!.arguments), {
          author: "call",
          message: index,
          home: homeOf(description),
        });
      }
    }
    // An answer without text and calls says nothing of the state that the turn is in.
    if (asked.length > 0) turn.finished = false;
    else if (hasText) turn.finished = !isFailedAnswer(message);
  }

  function readResult(message: ToolResultMessage, index: number): void {
    const output = messageText(message);
    const asked = calls.get(message.toolCallId) ?? [];
    calls.delete(message.toolCallId);
    const [only] = asked;
    const home = only && asked.length === 1 ? homeOf(only) : undefined;
    digest.strings.read(output, { author: "tool", message: index, home });
    const turn = currentTurn(index);
    turn.finished = false;
    for (const call of asked) recordOutcome(call, output, message.isError === true, turn, index);
  }

  function readBashExecution(message: ContextMessage & { role: "bashExecution" }, index: number): void {
    if (message.excludeFromContext === true) return;
    const command = typeof message.command === "string" ? message.command : "";
    const output = typeof message.output === "string" ? message.output : "";
    digest.strings.read(command, { author: "user", message: index });
    digest.strings.read(output, { author: "tool", message: index });
    const call: CallDescription = { purpose: "run", paths: [], command: readCommand(command), plan: [] };
    const isError = typeof message.exitCode === "number" && message.exitCode !== 0;
    recordOutcome(call, output, isError, currentTurn(index), index);
  }

  function recordOutcome(
    call: CallDescription,
    output: string,
    isError: boolean,
    turn: Turn,
    index: number,
  ): void {
    const outcome = outcomeOf(output, { isError, runs: call.command !== undefined && !call.command.reads });
    digest.work.record(call, outcome, index);
    recordInTurn(turn, call, outcome);
  }

  return {
    digest,
    add(message, index) {
      if (message.role === "user") readUser(message, index);
      else if (message.role === "assistant") readAssistant(message, index);
      else if (message.role === "toolResult") readResult(message, index);
      else if (message.role === "bashExecution") readBashExecution(message, index);
      else if (message.role === "compactionSummary") digest.summaries.push(messageText(message));
      else if (message.role === "branchSummary") digest.branchSummaries.push(messageText(message));
      else if (message.role === "custom") {
        digest.strings.read(messageText(message), { author: "assistant", message: index });
      }
      if (digest.summaries.length > KEPT_SUMMARIES) digest.summaries.shift();
      if (digest.branchSummaries.length > KEPT_SUMMARIES) digest.branchSummaries.shift();
    },
  };
}

/** The file whose content a call's arguments and result are; undefined where it is none or several. */
function homeOf(call: CallDescription): string | undefined {
  return call.paths.length === 1 && call.purpose !== "run" ? call.paths[0] : undefined;
}

/** The strings inside a call's arguments, a line each. Nested deeper than eight levels nothing is of interest. */
function argumentText(value: unknown, depth = 8): string {
  if (typeof value === "string") return value;
  if (typeof value !== "object" || value === null || depth === 0) return "";
  return Object.values(value)
    .map((part) => argumentText(part, depth - 1))
    .join("\n");
}

/** One request and what was done about it. */
export interface Turn {
  /** Text of the user; undefined for work whose request is before the messages. */
  request: string | undefined;
  /** The message it began at. */
  at: number;
  /** Number of changes of each file. */
  changes: Map<string, number>;
  /** Commands that report their own success, and whether their last run failed. */
  runs: Map<string, { line: string; failed: boolean }>;
  calls: number;
  /** The newest prose of the agent. */
  lastText: string;
  /** True when the agent's last message asked for no tool: it had nothing more to do. */
  finished: boolean;
}

/** Different files and commands remembered of one turn. */
const REMEMBERED_IN_TURN = 50;

function beginTurn(request: string | undefined, at: number): Turn {
  return { request, at, changes: new Map(), runs: new Map(), calls: 0, lastText: "", finished: false };
}

/** Notes in a turn what a call came to. */
function recordInTurn(turn: Turn, call: CallDescription, outcome: Outcome): void {
  turn.calls++;
  if (call.purpose !== "read" && call.purpose !== "other" && !outcome.failed) {
    for (const path of call.paths) {
      if (turn.changes.size < REMEMBERED_IN_TURN || turn.changes.has(path))
        turn.changes.set(path, (turn.changes.get(path) ?? 0) + 1);
    }
  }
  const { command } = call;
  if (command === undefined || command.reads || command.key === "") return;
  // Set anew, so that the newest run stands last.
  turn.runs.delete(command.key);
  if (turn.runs.size < REMEMBERED_IN_TURN)
    turn.runs.set(command.key, { line: command.line, failed: outcome.failed });
}

/** Weight of a turn in a summary. */
export function turnWeight(turn: Turn): number {
  let edits = 0;
  for (const count of turn.changes.values()) edits += count;
  return Math.log1p(2 * edits + turn.runs.size + 0.2 * turn.calls) + (turn.request === undefined ? 0 : 0.5);
}

const FILLERS =
  /^(?:perfect|great|excellent|done|sure|ok(?:ay)?|got it|you['’]re (?:absolutely )?right|ah|yes|no|i see|all set|fixed)\b[^.!:]{0,24}[.!]?$/i;

/** The sentence of an answer that tells most: early, with names in it, in words of something done. */
export function conclusionOf(text: string): string | undefined {
  let best: { sentence: string; score: number } | undefined;
  for (const [index, sentence] of splitSentences(text).slice(0, 40).entries()) {
    if (sentence.length < 12 || /[:?]$/.test(sentence) || FILLERS.test(sentence)) continue;
    const score =
      1 - 0.06 * index + 0.25 * Math.min(stringCount(sentence), 3) + (isResult(sentence) ? 0.5 : 0);
    if (best === undefined || score > best.score) best = { sentence, score };
  }
  return best?.sentence;
}

/** A sentence, its message, and its worth in a summary. */
interface Saying {
  text: string;
  at: number;
  score: number;
}

/** Sentences of users and the agent worth repeating word for word. */
interface Sayings {
  request(words: string, at: number): void;
  answer(text: string, at: number): void;
  requests(): Saying[];
  /** Lasting rules of the user. */
  rules(): Saying[];
  /** Sentences of the agent that say what was chosen, or why something is as it is. */
  decisions(): Saying[];
}

/** Kept of each; far more than a summary has room for. */
const CAPACITY = 60;
const LONGEST_SENTENCE = 400;

/** `messageCount` is what newness is measured against: the newest counts two points more than the oldest. */
function createSayings(messageCount: number, focus: (text: string) => boolean): Sayings {
  const requests = createRanking<Saying>(CAPACITY);
  const rules = createRanking<Saying>(CAPACITY);
  const decisions = createRanking<Saying>(CAPACITY);

  function keep(ranking: typeof requests, text: string, at: number, worth: number): void {
    const score = worth + (2 * at) / Math.max(messageCount, 1) + (focus(text) ? 2 : 0);
    ranking.add({ text, at, score }, score);
  }

  return {
    request(words, at) {
      const gist = gistOf(words);
      keep(
        requests,
        words,
        at,
        Math.log1p(Math.min(gist.length, 400)) / 3 + 0.2 * Math.min(stringCount(gist), 5),
      );
      for (const rule of rulesIn(words)) keep(rules, rule.text, at, 1.5 * rule.strength);
    },
    answer(text, at) {
      for (const sentence of splitSentences(text)) {
        if (sentence.length < 24 || /[?？:：]$/.test(sentence) || !isRepeatable(sentence)) continue;
        const strength = decisionStrength(sentence);
        if (strength > 0) keep(decisions, sentence, at, strength + 0.3 * Math.min(stringCount(sentence), 3));
      }
    },
    requests: () => requests.items(),
    rules: () => rules.items(),
    decisions: () => decisions.items(),
  };
}

/** The sentences of a text that read like rules; a question is half of one at most. */
export function rulesIn(words: string): { text: string; strength: number }[] {
  return splitSentences(words).flatMap((text) => {
    const strength = ruleStrength(text) - (/[?？]$/.test(text) ? 1 : 0);
    return strength > 0 && isRepeatable(text) ? [{ text, strength }] : [];
  });
}

/** Prose of a length that can be repeated whole, not a pasted line of code or of a log. */
function isRepeatable(sentence: string): boolean {
  if (sentence.length < 6 || sentence.length > LONGEST_SENTENCE) return false;
  const letters = sentence.match(/\p{L}/gu)?.length ?? 0;
  return letters / sentence.length > 0.6 && !/[{};]\s*$/.test(sentence);
}

/** Source of the parts of a summary. */
export interface Facts {
  purpose: SummaryPurpose;
  digest: SessionDigest;
  /** Earlier summaries; empty lists where there are none. */
  previous: PreviousSummary;
  /** Conclusions of branches that are not on the path. */
  branches: PreviousSummary;
  /** True for a text that the user asked to attend to. */
  focus: (text: string) => boolean;
}

/** Changes of one file. */
export interface FileWork {
  path: string;
  reads: number;
  /** Includes those of an earlier summary. */
  edits: number;
  /** True where the messages made it; a file of an earlier summary was there before. */
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
}

/** Changes of files and runs of commands by calls, with the state each was left in. */
interface WorkLog {
  record(call: CallDescription, outcome: Outcome, message: number): void;
  /** A file of an earlier summary, and its number of changes by then. */
  inherit(path: string, edits: number): void;
  files(): FileWork[];
  commands(): CommandWork[];
}

/** Files and commands remembered; the ones untouched longest are forgotten first. */
const REMEMBERED = 2_000;

function createWorkLog(): WorkLog {
  let files = new Map<string, FileWork>();
  let commands = new Map<string, CommandWork>();

  function newest<Work extends { last: number }>(works: Map<string, Work>): Map<string, Work> {
    if (works.size < REMEMBERED * 2) return works;
    return new Map([...works].sort(([, a], [, b]) => b.last - a.last).slice(0, REMEMBERED));
  }

  function fileAt(path: string, message: number): FileWork {
    const file = files.get(path) ?? {
      path,
      reads: 0,
      edits: 0,
      created: false,
      last: message,
      failure: undefined,
    };
    file.last = message;
    files.set(path, file);
    return file;
  }

  function recordFile(file: FileWork, { purpose }: CallDescription, outcome: Outcome): void {
    if (purpose === "read") {
      file.reads++;
    } else if (outcome.failed) {
      if (purpose !== "run") file.failure = outcome.errorLine ?? "no reason given";
    } else {
      if (purpose === "write" && file.reads === 0 && file.edits === 0) file.created = true;
      file.edits++;
      file.failure = undefined;
    }
  }

  return {
    record(call, outcome, message) {
      if (call.purpose === "other" || (call.purpose === "read" && outcome.failed)) return;
      for (const path of call.paths) recordFile(fileAt(path, message), call, outcome);
      if (call.command !== undefined && call.command.key !== "") {
        const { key } = call.command;
        const runs = (commands.get(key)?.runs ?? 0) + 1;
        commands.set(key, { ...call.command, runs, last: message, ...outcome });
      }
      files = newest(files);
      commands = newest(commands);
    },
    inherit(path, edits) {
      const file = files.get(path) ?? fileAt(path, -1);
      file.edits += edits;
      file.created = false;
    },
    files: () => [...files.values()],
    commands: () => [...commands.values()],
  };
}
