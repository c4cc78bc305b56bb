import { nativeFor } from "@espalier/interop";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  type AssistantMessage,
  type ContextMessage,
  contentBlocks,
  createId,
  type Entry,
  isFailedAnswer,
  isRecord,
  leaf,
  message,
  messageText,
  type NewEntry,
  type ToolCallBlock,
  type ToolResultMessage,
  toolCalls,
} from "@espalier/session-tree";
import { isSummaryError, raceAbort } from "@espalier/summarizer";
import type { Session } from "../session/session.ts";
import { toolResult } from "../session/state.ts";

/** Events of a turn, in order. */
export type TurnEvent =
  /** An entry of the turn is in the log: marks, answers, results, edits. */
  | { type: "entry"; entry: Entry }
  /** A request is sent, with this number of messages and estimated tokens. */
  | { type: "request"; messages: number; tokens: number }
  /** A piece of the answer, or of the model's thinking. */
  | { type: "text" | "thinking"; text: string }
  /** The whole answer, even a failed or aborted one, after it is in the log. */
  | { type: "answer"; message: AssistantMessage }
  /** A compaction failed; the history is unchanged. */
  | { type: "compact_failed"; message: string }
  /** A shortened request is sent again after this number of milliseconds. */
  | { type: "retry"; afterMs: number }
  /** A call begins, and later ends with its result, also a failed or refused one. Cut-off calls have no such events. */
  | { type: "tool_start"; call: ToolCallBlock }
  | { type: "tool_end"; call: ToolCallBlock; result: ToolResultMessage };

/** A call of a tool, as a model makes it. */
export interface TurnCall {
  id: string;
  name: string;
  input: Record<string, unknown>;
}

/** A request and its outcome, other than the answer itself. */
interface Asked {
  session: Session;
  log: TurnLog;
  error: unknown;
  signal: AbortSignal;
  tell: (event: TurnEvent) => void;
  /** Parts of the answer that each ended in a pause. */
  before: readonly AssistantMessage[];
}

/** A recorded answer, and its calls, which wait for their results. */
export class Turn {
  /** The answer as recorded. Its `stopReason` marks a failed or aborted answer. */
  readonly message: AssistantMessage;
  /** Calls of the answer, in order; none when it failed or was aborted. */
  readonly calls: readonly TurnCall[];
  /** Error of the SDK, or the abort's reason, when the answer failed or was aborted; undefined otherwise. */
  readonly error: unknown;
  /** The text of the answer, including the parts before a pause of the provider. */
  readonly text: string;
  readonly #asked: Asked;

  /** @internal `session.record` makes turns. */
  constructor(answer: AssistantMessage, asked: Asked) {
    this.text = [...asked.before, answer].map(messageText).join("");
    this.message = answer;
    const calls = isFailedAnswer(answer) ? [] : toolCalls(answer);
    this.calls = calls.map(({ id, name, arguments: input }) => ({ id, name, input }));
    this.error = asked.error;
    this.#asked = asked;
  }

  /**
   * Runs all calls at once and records each result as soon as its call ends. A result is a text, `{ content, isError,
   * details }`, or any value, which becomes JSON. A call that throws or is aborted gets an error result. Calls of an answer
   * that was cut off at its limit are not run.
   *
   * @returns the results, in the order of the calls
   * @throws EspalierError when the log cannot be written; `moved` when the leaf was moved to another branch meanwhile
   */
  async answerAll(run: (call: TurnCall) => unknown): Promise<ToolResultMessage[]> {
    const answers = await Promise.allSettled(this.calls.map((call) => this.answer(call, run)));
    return answers.map((answer) => {
      if (answer.status === "rejected") throw answer.reason;
      return answer.value;
    });
  }

  /** Runs one call and records its result, as {@link answerAll} does. */
  async answer({ id, name, input }: TurnCall, run: (call: TurnCall) => unknown): Promise<ToolResultMessage> {
    const { session, signal, tell } = this.#asked;
    const call: ToolCallBlock = { type: "toolCall", id, name, arguments: input };
    if (this.message.stopReason === "length") return this.#record(call, refused(call, CUT_OFF));
    tell({ type: "tool_start", call });
    const ended = await outcome(call, async () => run({ id, name, input }), signal);
    // Recorded before it is shown: a tool's work cannot be repeated.
    const result = await this.#record(call, ended);
    tell({ type: "tool_end", call, result });
    const { content, isError } = result;
    await session.tell(toolResult, {
      toolCallId: id,
      toolName: name,
      input: { ...input },
      content,
      isError,
    });
    return result;
  }

  /**
   * Records a result. In place of one that cannot be written, such as one of 16 MiB, an error result with the reason is
   * recorded.
   */
  async #record(call: ToolCallBlock, result: ToolResultMessage): Promise<ToolResultMessage> {
    const { log } = this.#asked;
    try {
      await log.append([message.of({ message: result })]);
      return result;
    } catch (error) {
      if (!(error instanceof EspalierError) || error.code !== "invalid-entry") throw error;
      const lost = refused(call, `The call has ended, and its result cannot be stored. ${error.message}`);
      await log.append([message.of({ message: lost })]);
      return lost;
    }
  }
}

/** Appends the entries of turns, each under the previous one, even if other entries are appended in between. */
export class TurnLog {
  readonly #session: Session;
  #tell: (event: { type: "entry"; entry: Entry }) => void = () => {};
  /** The newest entry of the turns. */
  #place: string | null;
  /** The newest entry that was drafted for another branch than the leaf's; its write may still fail. */
  #drafted: string | undefined;

  constructor(session: Session) {
    this.#session = session;
    this.#place = session.leafId;
  }

  /** Passes every entry to `tell` from now on. */
  telling(tell: (event: { type: "entry"; entry: Entry }) => void): this {
    this.#tell = tell;
    return this;
  }

  /**
   * Appends after the newest entry of the turns. When the leaf was moved to another branch meanwhile, it stays there.
   *
   * @throws EspalierError `moved` in that case, after the entries are in the log; errors of `append`
   */
  async append(drafts: readonly NewEntry[], durability?: "fsync"): Promise<Entry[]> {
    if (drafts.length === 0) return [];
    const session = this.#session;
    let isHere = true;
    const drafted = () => {
      const { leafId } = session;
      const place = this.#drafted && session.tree.has(this.#drafted) ? this.#drafted : this.#place;
      isHere = !place || session.isOnPath(place);
      if (isHere) return drafts;
      // The next append may be drafted before this one is acknowledged: it follows this one by its id.
      const [first, ...rest] = drafts.map((draft) => ({ ...draft, id: draft.id ?? createId() }));
      this.#drafted = rest.at(-1)?.id ?? first!.id;
      return [{ ...first!, parentId: place }, ...rest, leaf.of({ parentId: leafId, targetId: leafId })];
    };
    const appended = await session.append(drafted, durability ? { durability } : {});
    for (const entry of appended) this.#tell({ type: "entry", entry });
    if (!isHere)
      throw new EspalierError(
        "moved",
        "The leaf was moved to another entry of the session during the run. The answer is on the branch of its request; navigate there to continue.",
      );
    this.#place = appended.at(-1)!.id;
    this.#drafted = undefined;
    return appended;
  }
}

/** Result of a tool call that was running when it was aborted, or when its process ended. */
export const INTERRUPTED = "The call was interrupted: its result was never recorded. It was not run again.";

/** Result of a tool call whose turn ended before it ran. */
export const NOT_RUN = "The call was not run: the user ended the turn before it.";

/** Result of a tool call in an answer that reached its limit: the call may be incomplete. */
const CUT_OFF = "The call was not run: the answer was cut off at its limit. Make it again, shorter.";

/** Returns the result of one tool call. Never throws: an error or an abort becomes an error result. */
async function outcome(
  call: ToolCallBlock,
  run: () => Promise<unknown>,
  signal: AbortSignal,
): Promise<ToolResultMessage> {
  if (signal.aborted) return refused(call, NOT_RUN);
  try {
    return resultOf(call, await untilAborted(run(), signal));
  } catch (error) {
    if (isAbort(error, signal)) return refused(call, INTERRUPTED);
    return refused(call, error instanceof Error ? error.message : String(error));
  }
}

/** Returns error results, as entries, for the calls of the newest answer that have no result. */
export function missingResults(messages: readonly ContextMessage[]): NewEntry[] {
  return openCalls(messages).map((call) => message.of({ message: refused(call, INTERRUPTED) }));
}

const refused = (call: ToolCallBlock, why: string): ToolResultMessage =>
  resultOf(call, { content: why, isError: true });

function resultOf({ id, name }: ToolCallBlock, output: unknown): ToolResultMessage {
  const fields: Record<string, unknown> = isRecord(output) ? output : {};
  const content = blocksOf(fields["content"]);
  const { isError, details } = content ? fields : {};
  const text = () => (typeof output === "string" ? output : (JSON.stringify(output) ?? "(no output)"));
  return {
    role: "toolResult",
    toolCallId: id,
    toolName: name,
    content: content ?? [{ type: "text", text: text() }],
    isError: isError === true,
    ...(details === undefined ? {} : { details }),
    timestamp: Date.now(),
  };
}

/** Returns a text or a list of blocks as blocks; undefined for any other value. */
function blocksOf(content: unknown): ToolResultMessage["content"] | undefined {
  if (typeof content === "string") return [{ type: "text", text: content }];
  const isBlock = (block: unknown) => isRecord(block) && typeof block["type"] === "string";
  return Array.isArray(content) && content.every(isBlock) ? content : undefined;
}

/**
 * Returns the calls of the newest answer without a result: a process ended, or a branch was left, before they had one.
 * A call that waits for an approval of the AI SDK is not included: the SDK runs it after the approval.
 */
export function openCalls(messages: readonly ContextMessage[]): ToolCallBlock[] {
  const answered = new Set<unknown>();
  for (const message of messages.toReversed()) {
    if (message.role === "toolResult") answered.add(message.toolCallId);
    if (message.role !== "assistant" || isFailedAnswer(message)) continue;
    for (const block of contentBlocks(message)) {
      const native = nativeFor(block, "ai-sdk")?.value;
      if (native?.["type"] === "tool-approval-request") answered.add(native["toolCallId"]);
    }
    return toolCalls(message).filter(({ id }) => !answered.has(id));
  }
  return [];
}

/** Returns whether the conversation is empty or ends in a complete answer: then there is nothing to send. */
export function isAnswered(messages: readonly ContextMessage[]): boolean {
  const last = messages.findLast((message) => SPEAKING.has(message.role) && !isFailedAnswer(message));
  return last === undefined || (last.role === "assistant" && !isPaused(last));
}

/** Returns whether the provider paused an answer, and continues it when the answer is sent back unchanged. */
export const isPaused = (answer: AssistantMessage): boolean =>
  answer.stopReason === "deferred" && toolCalls(answer).length === 0;

const SPEAKING: ReadonlySet<string> = new Set(["user", "assistant", "toolResult"]);

/**
 * Returns the result of `work`, or throws the signal's reason when the abort comes first. Work that ignores the signal
 * is not awaited, and its result is dropped.
 */
export const untilAborted = <Result>(work: Promise<Result>, signal: AbortSignal): Promise<Result> =>
  raceAbort(work, signal, 1, ({ reason }) => reason);

/** Returns whether an error is only the abort of the signal. */
export function isAbort(error: unknown, signal: AbortSignal): boolean {
  const isTold = isSummaryError(error) && error.code === "aborted";
  const isNamed = error instanceof Error && error.name === "AbortError";
  return signal.aborted && (error === signal.reason || isTold || isNamed);
}
