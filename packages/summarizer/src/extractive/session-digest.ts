import {
  type ContextMessage,
  isFailedAnswer,
  messageText,
  type ToolResultMessage,
  toolCalls,
} from "@espalier/session-tree";
import { callsWithin } from "../files/code-mode.ts";
import { readCommand } from "./command.ts";
import { outcomeOf } from "./outcome.ts";
import { createRanking } from "./ranking.ts";
import { createSayings, type Sayings } from "./sayings.ts";
import { createStringIndex, type StringIndex } from "./string-index.ts";
import { type CallDescription, describeCall, type PlanItem } from "./tool-call.ts";
import { beginTurn, recordInTurn, type Turn, turnWeight } from "./turn.ts";
import { isRequest, userWords } from "./user-words.ts";
import { createWorkLog, type WorkLog } from "./work-log.ts";

/** What a session's messages come to: everything that a summary is written from. */
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
export interface DigestBuilder {
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
