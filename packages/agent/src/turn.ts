import { setTimeout as delay } from "node:timers/promises";
import { type CompactionSettings, isContextOverflow, shouldCompact } from "@espalier/compaction";
import { type Session, sentEntry, toolResult } from "@espalier/engine";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  type AssistantBlock,
  type AssistantMessage,
  buildRequest,
  contextEdit,
  type Entry,
  isLogError,
  message,
  type SessionContext,
  type ToolCallBlock,
  type ToolResultMessage,
} from "@espalier/session-tree";
import { stillTooLong } from "./agent-error.ts";
import { type AgentListener, type AgentOptions, breakdownOf, type Limits } from "./limits.ts";
import type { Model, ModelEvent } from "./model.ts";
import type { RunLog } from "./run-log.ts";
import { CUT_OFF, callsOf, definitionOf, refusedResults, runTool, untilAborted } from "./tool.ts";

/** Environment of a turn. Model, limits and size may change during it. */
export interface TurnStage {
  readonly options: AgentOptions;
  readonly log: RunLog;
  readonly tell: AgentListener;
  model(): Model;
  limits(): Limits;
  /** Size of the next request. */
  contextTokens(): number;
}

/** Result of a turn: tools gave results, the request was too long and is sent again, or it is done. */
interface Turn {
  answer: AssistantMessage;
  /** Results of its calls. */
  results: ToolResultMessage[];
  next: "tools" | "overflow" | "done";
}

/**
 * One request, its answer, and what follows from it.
 *
 * @param overflows in a row before this one
 * @throws EspalierError `overflow`, `moved`; what `session.prepareRequest` throws
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

/** The request that the tree gives at the leaf, after the policy has done what it does before one. */
async function turnRequest(
  { session, system, tools = [] }: Pick<AgentOptions, "session" | "system" | "tools">,
  model: Model,
  limits: Limits,
  signal: AbortSignal,
): Promise<{ request: unknown; context: SessionContext }> {
  const definitions = tools.map(definitionOf);
  const prepared = await session.prepareRequest({ ...limits, system, tools: definitions, signal });
  signal.throwIfAborted();
  const { context } = prepared;
  const { provider, modelId, format } = model;
  const request = buildRequest(context, {
    format,
    model: { provider, modelId },
    system: prepared.system,
    tools: definitions,
  });
  return { request, context };
}

/** Action that follows an answer. */
export type AfterAnswer = "nothing" | "overflow" | "threshold";

/**
 * The decision after each answer, in this order: aborted → nothing; the request was too long for the model, by what the
 * provider said or counted, and it was the current model → overflow (compact; an answer that did not come to its end is
 * left out, and the request sent once more); failed otherwise → nothing; over the threshold → compact, no retry.
 *
 * @param contextTokens size of the context with the answer, as the policy measures it
 */
export function afterAnswer(
  answer: AssistantMessage,
  model: { provider: string; modelId: string },
  contextTokens: number,
  settings: CompactionSettings,
): AfterAnswer {
  if (answer.stopReason === "aborted") return "nothing";
  const isCurrent = answer.provider === model.provider && answer.model === model.modelId;
  if (isCurrent && isContextOverflow(answer, settings.contextWindow)) return "overflow";
  if (answer.stopReason === "error") return "nothing";
  return shouldCompact(contextTokens, settings.contextWindow, settings) ? "threshold" : "nothing";
}

/** Returns whether an answer is whole. A whole one is kept, however long its request was. */
const isWhole = ({ stopReason }: AssistantMessage): boolean =>
  stopReason === "stop" || stopReason === "toolUse";

/**
 * Compacts after an answer that is kept; nothing is sent again. A compaction that fails, or that an extension vetoes,
 * costs no answer: the reason is logged and returned, and the next request tries again. Undefined where all went well,
 * or nothing is due.
 *
 * @throws EspalierError when the log cannot be written
 */
async function compactAfter(
  session: Session,
  reason: AfterAnswer,
  limits: Limits,
  signal: AbortSignal,
): Promise<string | undefined> {
  const options = { ...limits, signal };
  try {
    if (reason === "nothing") return undefined;
    if (reason === "threshold") await session.compactWhenDue(options);
    else await session.compact({ ...options, reason, willRetry: false });
    return undefined;
  } catch (error) {
    if (!(error instanceof Error) || isLogError(error)) throw error;
    session.logger.error(`The session was not compacted, and goes on as it is: ${error.message}`, { error });
    return error.message;
  }
}

/**
 * Makes room for a request that was too long: the answer to it is left out (it stays in the file), and the path is
 * compacted. Once: after `overflows` in a row there is nothing left that could help.
 *
 * @throws EspalierError `auto-off` when nothing may compact by itself; `overflow` when nothing can shrink
 */
async function recoverFromOverflow(
  session: Session,
  log: RunLog,
  failed: { answer: AssistantMessage; entry: Entry; overflows: number },
  limits: Limits,
  signal: AbortSignal,
): Promise<void> {
  if (failed.overflows > 0) throw stillTooLong(failed.answer, breakdownOf(session, limits));
  if (!limits.settings.autoCompact) {
    throw new EspalierError(
      "auto-off",
      "The request was too long for the model, and nothing may compact by itself; compact by hand, or use a model with a larger window.",
    );
  }
  await log.append([contextEdit.of({ targetId: failed.entry.id, replacement: null })]);
  const result = await session.compact({ ...limits, signal, reason: "overflow" });
  if (!result.eligible) throw stillTooLong(failed.answer, breakdownOf(session, limits));
}

/** Milliseconds for a model to end by itself after an abort: it knows best what it was billed. */
const GRACE_MS = 300;

/**
 * Streams one answer, telling of its pieces. Whatever happens becomes an answer: what a model throws one of
 * `stopReason` `error`, an abort one of `aborted`, both with what there was of text and thinking.
 */
async function streamAnswer(
  model: Model,
  request: unknown,
  options: { signal: AbortSignal; maxOutputTokens: number },
  tell: (event: Exclude<ModelEvent, { type: "answer" }>) => void,
): Promise<AssistantMessage> {
  const { signal } = options;
  const content: AssistantBlock[] = [];
  let events: AsyncIterator<ModelEvent> | undefined;
  try {
    events = model.stream(request, options)[Symbol.asyncIterator]();
    for (;;) {
      const { value, done } = await untilAborted(events.next(), signal, GRACE_MS);
      if (done) throw new Error(`The model ${model.modelId} ended without an answer.`);
      if (value.type === "answer") return value.message;
      addPiece(content, value);
      tell(value);
    }
  } catch (error) {
    return {
      role: "assistant",
      content,
      provider: model.provider,
      model: model.modelId,
      usage: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0 },
      stopReason: signal.aborted ? "aborted" : "error",
      errorMessage: signal.aborted ? ABORTED : error instanceof Error ? error.message : String(error),
      timestamp: Date.now(),
    };
  } finally {
    // A model that ignores the signal is not awaited, and its end changes nothing.
    events?.return?.().catch(() => undefined);
  }
}

/** Error message of an aborted answer. */
export const ABORTED = "The answer was aborted.";

/**
 * Adds a piece to what there is of an answer so far. It is what remains when the answer does not come to its end:
 * thinking has no signature then, and is kept for people to read; no request carries it.
 */
export function addPiece(
  blocks: AssistantBlock[],
  { type, text }: { type: "text" | "thinking"; text: string },
): void {
  const last = blocks.at(-1);
  if (type === "text") {
    if (last?.type === "text") last.text += text;
    else blocks.push({ type, text });
  } else if (last?.type === "thinking") last.thinking += text;
  else blocks.push({ type, thinking: text });
}
