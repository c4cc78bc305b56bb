import { setTimeout as delay } from "node:timers/promises";
import { sentEntry, toolResult } from "@espalier/engine";
import {
  type AssistantMessage,
  message,
  type ToolCallBlock,
  type ToolResultMessage,
} from "@espalier/session-tree";
import { afterAnswer, isWhole } from "./after-answer.ts";
import type { AgentListener } from "./agent-event.ts";
import type { AgentOptions } from "./agent-options.ts";
import { compactAfter } from "./compact-after.ts";
import type { Limits } from "./limits.ts";
import type { Model } from "./model.ts";
import { recoverFromOverflow } from "./recover-from-overflow.ts";
import type { RunLog } from "./run-log.ts";
import { CUT_OFF, callsOf, refusedResults, runTool } from "./run-tools.ts";
import { streamAnswer } from "./stream-answer.ts";
import { turnRequest } from "./turn-request.ts";

/** What a turn works with. Model, limits and size may be others from one moment to the next. */
export interface TurnStage {
  readonly options: AgentOptions;
  readonly log: RunLog;
  readonly tell: AgentListener;
  model(): Model;
  limits(): Limits;
  /** Size of the next request. */
  contextTokens(): number;
}

/** What came of a turn: tools gave their results, the request was too long and is to be sent once more, or it is done. */
export interface Turn {
  answer: AssistantMessage;
  /** Results of its calls. */
  results: ToolResultMessage[];
  next: "tools" | "overflow" | "done";
}

/**
 * One request, its answer, and what follows from it.
 *
 * @param overflows in a row before this one
 * @throws AgentError `overflow`, `moved`; what `session.prepareRequest` throws
 */
export async function takeTurn(stage: TurnStage, overflows: number, signal: AbortSignal): Promise<Turn> {
  const { options, log, tell } = stage;
  const { session } = options;
  const model = stage.model();
  const asked = stage.limits();

  // The request is what the tree gives at the leaf, when the policy has done what it does before one.
  const { request, context } = await turnRequest(options, model, asked, signal);
  // The mark goes out before the request does: after a crash one knows that an answer may have been billed.
  await log.append([sentEntry(session.leafId, model.modelId)], "fsync");
  tell({ type: "request", messages: context.messages.length, tokens: context.tokens });
  const { reserveTokens: maxOutputTokens } = asked.settings;

  // Whatever the model says, or does not come to say, is an answer, and in the log before anything follows from it.
  const answer = await streamAnswer(model, request, { signal, maxOutputTokens }, tell);
  const [entry] = await log.append([message.of({ message: answer })]);
  tell({ type: "answer", message: answer });

  // Too long: make room, and once more.
  const limits = stage.limits();
  const then = afterAnswer(answer, stage.model(), stage.contextTokens(), limits.settings);
  if (then === "overflow" && !isWhole(answer)) {
    await recoverFromOverflow(session, log, { answer, entry: entry!, overflows }, limits, signal);
    const { overflowRetryDelayMs: afterMs = 100 } = options;
    tell({ type: "retry", afterMs });
    // It ends by itself or by an abort, whose reason is what is thrown.
    await delay(afterMs, undefined, { signal }).catch(() => signal.throwIfAborted());
    return { answer, results: [], next: "overflow" };
  }

  // Every call gets a result: what the tool gave, or why it was not run.
  const calls = callsOf(answer);
  const results: ToolResultMessage[] = [];
  if (answer.stopReason === "length") await log.append(refusedResults(calls, CUT_OFF));
  else for (const call of calls) results.push(await runCall(stage, call, signal));
  if (calls.length > 0) return { answer, results, next: "tools" };

  // Nothing is asked for any more: the time to compact, if it is due.
  const failure = await compactAfter(session, then, limits, signal);
  if (failure) tell({ type: "compact_failed", message: failure });
  return { answer, results, next: "done" };
}

/** Runs a call. Its result is in the log before it is shown: what a tool did cannot be had again. */
async function runCall(
  { options, log, tell }: TurnStage,
  call: ToolCallBlock,
  signal: AbortSignal,
): Promise<ToolResultMessage> {
  const { tools = [], approve, session } = options;
  tell({ type: "tool_start", call });
  const cwd = session.header?.cwd ?? process.cwd();
  const result = await runTool(call, { tools, signal, cwd, ...(approve ? { approve } : {}) });
  await log.append([message.of({ message: result })]);
  tell({ type: "tool_end", call, result });
  const { id: toolCallId, name: toolName, arguments: input } = call;
  const { content, isError } = result;
  await session.tell(toolResult, { toolCallId, toolName, input: { ...input }, content, isError });
  return result;
}
