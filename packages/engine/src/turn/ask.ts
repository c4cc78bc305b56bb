import { setTimeout as delay } from "node:timers/promises";
import {
  type CompactionSettings,
  isContextOverflow,
  shouldCompact,
  trustedTokens,
} from "@espalier/compaction";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  type AssistantBlock,
  type AssistantMessage,
  contextEdit,
  type Entry,
  estimateTotal,
  isLogError,
  message,
  type Usage,
} from "@espalier/session-tree";
import { type DraftContent, fillMessages } from "../session/message-draft.ts";
import type { PreparedRequest, RequestPreparation } from "../session/prepare-request.ts";
import { sentEntry } from "../session/replay.ts";
import type { Session } from "../session/session.ts";
import { type AnswerEvent, type Limits, limitsOf, type Provider, promptOf } from "./provider.ts";
import { isAnswered, isPaused, missingResults, Turn, type TurnEvent, TurnLog, untilAborted } from "./turn.ts";

/** Options of `Session.say`. */
export interface SayOptions {
  /**
   * Id of the prompt's entry, for example one that the client gave its request. If the session already has that entry,
   * nothing is appended and the entry is returned, so that a repeated request has no effect.
   */
  id?: string;
}

/** Appends the user's message; see `Session.say`. */
export async function say(session: Session, content: DraftContent, { id }: SayOptions = {}): Promise<Entry> {
  if (id !== undefined) await session.load();
  const known = () => (id === undefined ? undefined : session.getEntry(id));
  const [said] = fillMessages([{ role: "user", content }], session.context);
  const prompt = id === undefined ? said! : { ...said!, id };
  // Drafted when earlier appends have ended: they may have the same prompt, or results of the calls.
  const drafted = () => (known() ? [] : [...missingResults(session.context.messages), prompt]);
  const appended = await session.append(drafted);
  return appended.at(-1) ?? known()!;
}

/** Options of {@link nextRequest}. */
export interface NextOptions extends Pick<RequestPreparation, "signal" | "pictures" | "tools" | "system"> {
  /**
   * Log of a run of several turns: each entry follows the previous one, even if the leaf has moved. Default: a new log.
   */
  log?: TurnLog;
}

/** A request that is ready to send. */
export interface TurnRequest<Params = unknown> extends PreparedRequest {
  /** Request in the SDK's form. Add fields only to a copy; change nothing inside. */
  params: Params;
  options: NextOptions;
}

/**
 * Prepares the next request at the leaf: calls without a result get a result that says the call was interrupted, the
 * policy compacts, and the context is healed and written in the provider's format.
 *
 * @throws EspalierError `empty-context` when the conversation is empty or ends in an answer; errors of `prepareRequest`;
 * the abort's reason
 */
export async function nextRequest<Params>(
  session: Session,
  provider: Provider<Params>,
  given: NextOptions = {},
): Promise<TurnRequest<Params>> {
  const { signal, pictures } = given;
  signal?.throwIfAborted();
  const log = given.log ?? new TurnLog(session);
  // Calls that an earlier process left without a result are never repeated automatically.
  await log.append(missingResults(session.context.messages));
  if (isAnswered(session.context.messages))
    throw new EspalierError(
      "empty-context",
      "The conversation has nothing to answer: it is empty, or it ends in an answer. Say something first.",
    );
  const limits = limitsOf(session, provider, given);
  const prompt = promptOf(provider, given);
  const prepared = await session.prepareRequest({
    ...limits,
    ...prompt,
    ...(pictures ? { pictures } : {}),
    ...(signal ? { signal } : {}),
  });
  signal?.throwIfAborted();
  const params = provider.params(prepared.context, {
    system: prepared.system,
    tools: prompt.tools,
    maxOutputTokens: provider.answerTokens ?? limits.settings.reserveTokens,
  });
  return { ...prepared, params, options: { ...given, log } };
}

/** Options of {@link recordAnswer}. */
export interface RecordOptions<Params = unknown> {
  /**
   * Sends the request; returns a stream of the SDK, a whole answer, or a promise of one. Default: the client of the provider
   * value, streamed.
   */
  send?: (params: Params) => unknown;
  /** Receives the pieces of the answer's text. */
  onText?: (text: string) => void;
  /** Receives all events of the turn, in order. */
  onEvent?: (event: TurnEvent) => void;
  /** Milliseconds before a request that was too long is retried. Default 100. */
  overflowRetryDelayMs?: number;
}

/**
 * Sends a request and records the answer, in this order:
 *
 * 1. mark: an entry on disk says that the request is sent;
 * 2. send and read: the provider answers; a failure or an abort becomes an answer too;
 * 3. record: the answer is in the log;
 * 4. retry: when the request was too long and its answer is incomplete, the answer is left out of the context, the
 * session is compacted, and the request is sent once more;
 * 5. continue: a paused answer (Anthropic's `pause_turn`) is sent back unchanged, and its next part is recorded like
 * the first;
 * 6. compact: when the answer has no calls and the policy finds a compaction due.
 *
 * Returns the turn; a failure of the SDK or an abort is its `error`, and is not thrown.
 *
 * @throws EspalierError `overflow` when compacting does not help, `auto-off`; `moved` when the leaf was moved to
 * another branch meanwhile, after the answer is in the log; for a retry or a continuation, errors of {@link nextRequest}
 */
export async function recordAnswer<Params>(
  session: Session,
  provider: Provider<Params>,
  request: TurnRequest<Params>,
  options: RecordOptions<Params> = {},
): Promise<Turn> {
  const { send, onEvent = () => {}, onText, overflowRetryDelayMs: afterMs = 100 } = options;
  const signal = request.options.signal ?? new AbortController().signal;
  const log = (request.options.log ?? new TurnLog(session)).telling(onEvent);
  const tell = (event: TurnEvent) => {
    if (event.type === "text") onText?.(event.text);
    onEvent(event);
  };
  const before: AssistantMessage[] = [];
  for (let asked = request, overflows = 0; ; ) {
    // Written to disk before the request is sent: after a crash the entry shows that an answer may have been billed.
    await log.append([sentEntry(session.leafId, provider.modelId)], "fsync");
    const { messages, tokens } = asked.context;
    tell({ type: "request", messages: messages.length, tokens });
    const sending = () => (send ? send(asked.params) : provider.send(asked.params, signal));
    const { answer, error } = await readAnswer(provider, sending, signal, tell);
    const [entry] = await log.append([message.of({ message: answer })]);
    tell({ type: "answer", message: answer });

    const limits = limitsOf(session, provider, request.options);
    const size = trustedTokens(session.context, limits.overheadTokens);
    const then = afterAnswer(answer, provider, size, limits.settings);
    if (then === "overflow" && !isWhole(answer)) {
      if (overflows++ > 0) throw stillTooLong(answer, session, limits);
      await makeRoom(session, log, { answer, entry: entry! }, limits, signal);
      tell({ type: "retry", afterMs });
      // The delay ends after its time, or by an abort, whose reason is thrown.
      await delay(afterMs, undefined, { signal }).catch(() => signal.throwIfAborted());
    } else if (isPaused(answer)) before.push(answer);
    else {
      const turn = new Turn(answer, { session, log, error, signal, tell, before });
      if (turn.calls.length === 0) {
        const failure = await compactAfter(session, then, limits, signal);
        if (failure) tell({ type: "compact_failed", message: failure });
      }
      return turn;
    }
    asked = await nextRequest(session, provider, { ...request.options, log });
  }
}

/** Milliseconds that an answer has to end after an abort, over all its events: the last one has the usage. */
const GRACE_MS = 300;

/** Returns a signal that is aborted {@link GRACE_MS} after another one, unless `ended` was aborted before. */
function afterGrace(signal: AbortSignal, ended: AbortSignal): AbortSignal {
  const late = new AbortController();
  const begin = () => void setTimeout(() => late.abort(signal.reason), GRACE_MS);
  if (signal.aborted) begin();
  else signal.addEventListener("abort", begin, { once: true, signal: ended });
  return late.signal;
}

/**
 * Reads one answer and passes its pieces to `tell`. Never throws: an error becomes an answer with `stopReason` `error`,
 * an abort one with `aborted`, both with the text and thinking received so far.
 */
async function readAnswer(
  provider: Provider,
  send: () => unknown,
  signal: AbortSignal,
  tell: (event: { type: "text" | "thinking"; text: string }) => void,
): Promise<{ answer: AssistantMessage; error: unknown }> {
  const content: AssistantBlock[] = [];
  let usage: Usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0 };
  let events: AsyncIterator<AnswerEvent> | undefined;
  const ended = new AbortController();
  const late = afterGrace(signal, ended.signal);
  try {
    signal.throwIfAborted();
    const sent = await untilAborted(Promise.resolve().then(send), late);
    events = provider.read(sent)[Symbol.asyncIterator]();
    for (;;) {
      const { value, done } = await untilAborted(events.next(), late);
      if (done) throw new Error(`The model ${provider.modelId} ended without an answer.`);
      if (value.type === "answer")
        return { answer: value.message, error: signal.aborted ? signal.reason : undefined };
      if (value.type === "usage") usage = value.usage;
      else {
        addPiece(content, value);
        tell(value);
      }
    }
  } catch (thrown) {
    const error = thrown ?? new Error(`The model ${provider.modelId} failed without a reason.`);
    const answer: AssistantMessage = {
      role: "assistant",
      content,
      provider: provider.provider,
      model: provider.modelId,
      usage,
      stopReason: signal.aborted ? "aborted" : "error",
      errorMessage: signal.aborted ? ABORTED : errorTextOf(error),
      timestamp: Date.now(),
    };
    return { answer, error: signal.aborted ? signal.reason : error };
  } finally {
    ended.abort();
    // A stream that ignores the signal is not awaited, and its end changes nothing.
    events?.return?.()?.catch(() => undefined);
  }
}

/** Error message of an aborted answer. */
const ABORTED = "The answer was aborted.";

/** Returns the error message of a provider with its status, from which an overflow is recognized. */
function errorTextOf(error: unknown): string {
  const { status, statusCode, message } = error as Record<string, unknown>;
  const text = typeof message === "string" && message !== "" ? message : String(error);
  const code = status ?? statusCode;
  // A proxy has another message for this error.
  if (code === 413 && !text.includes("request_too_large")) return `request_too_large: ${text}`;
  return code === undefined || text.startsWith(`${code}`) ? text : `${code} ${text}`;
}

/**
 * Adds a piece to the blocks received so far. They are recorded when the answer is cut short. Its thinking then has no
 * signature: it is kept for people, and is not sent back.
 */
function addPiece(
  blocks: AssistantBlock[],
  { type, text }: { type: "text" | "thinking"; text: string },
): void {
  const last = blocks.at(-1);
  if (type === "text" && last?.type === type) last.text += text;
  else if (type === "thinking" && last?.type === type) last.thinking += text;
  else blocks.push(type === "text" ? { type, text } : { type, thinking: text });
}

/** Action that follows an answer. */
export type AfterAnswer = "nothing" | "overflow" | "threshold";

/**
 * Decides the action after an answer, in this order: aborted → nothing; the request was too long for the current model,
 * by the provider's error or count → overflow (compact; an incomplete answer is left out and the request sent once
 * more); failed for another reason → nothing; over the threshold → compact, no retry.
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

/** Returns whether an answer is complete. A complete answer is kept, even if its request was too long. */
const isWhole = ({ stopReason }: AssistantMessage): boolean =>
  stopReason === "stop" || stopReason === "toolUse";

/**
 * Compacts after an answer that is kept; no request is sent again. If a compaction fails, or an extension vetoes it,
 * the answer is kept: the reason is logged and returned, and the next request retries. Undefined when it succeeded or
 * none was due.
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
    if (reason === "threshold") await session.compactWhenDue(options);
    else if (reason === "overflow") await session.compact({ ...options, reason, willRetry: false });
    return undefined;
  } catch (error) {
    if (!(error instanceof Error) || isLogError(error)) throw error;
    session.logger.error(`The session was not compacted, and is unchanged: ${error.message}`, { error });
    return error.message;
  }
}

/**
 * Makes room for a request that was too long: leaves its answer out of the context (it stays in the file) and compacts.
 *
 * @throws EspalierError `auto-off` when automatic compaction is off; `overflow` when nothing can shrink
 */
async function makeRoom(
  session: Session,
  log: TurnLog,
  { answer, entry }: { answer: AssistantMessage; entry: Entry },
  limits: Limits,
  signal: AbortSignal,
): Promise<void> {
  if (!limits.settings.autoCompact)
    throw new EspalierError(
      "auto-off",
      "The request was too long for the model, and automatic compaction is off; compact by hand, or use a model with a larger window.",
    );
  await log.append([contextEdit.of({ targetId: entry.id, replacement: null })]);
  const result = await session.compact({ ...limits, signal, reason: "overflow" });
  if (!result.eligible) throw stillTooLong(answer, session, limits);
}

/** Makes the error for a request that is too long even after a compaction. Sizes in tokens. */
function stillTooLong(
  { model, errorMessage }: AssistantMessage,
  session: Session,
  { settings: { contextWindow }, overheadTokens: systemAndTools }: Limits,
): EspalierError {
  const { messages } = session.context;
  const newest = messages.findLast(({ role }) => role === "user");
  const newestUserMessage = estimateTotal(newest ? [newest] : []);
  const context = estimateTotal(messages);
  const said = errorMessage ? ` (${errorMessage})` : "";
  return new EspalierError(
    "overflow",
    `The request is too long for ${model}, and compacting does not help${said}: system prompt and tools take ${systemAndTools} tokens, the newest user message ${newestUserMessage}, the whole context ${context}, and the window has ${contextWindow}. Use a model with a larger window.`,
    { breakdown: { systemAndTools, newestUserMessage, context, contextWindow } },
  );
}
