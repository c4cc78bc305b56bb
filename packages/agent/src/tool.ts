import {
  type AssistantMessage,
  type ImageBlock,
  message,
  type NewEntry,
  type TextBlock,
  type ToolCallBlock,
  type ToolDefinition,
  type ToolResultMessage,
  toolCalls,
} from "@espalier/session-tree";
import { type FileTool, isSummaryError } from "@espalier/summarizer";

/** Result of a tool. */
export interface ToolOutput {
  /** Content for the model. */
  content: (TextBlock | ImageBlock)[];
  /** True where the tool failed, for the model. Default false. */
  isError?: boolean;
  /** Kept in the entry for people and extensions; the model never reads it. */
  details?: unknown;
}

/** Context of a tool call, besides its arguments. */
export interface ToolContext {
  /** The folder the agent works in. */
  cwd: string;
  /** Fires when the run is aborted; the tool is not awaited from then on. */
  signal: AbortSignal;
}

/** Something a model can have done. */
export interface Tool extends ToolDefinition {
  /** Files that a call reads or writes; see `FileTool`. */
  files?: FileTool["files"];
  /** True for tools that write or run something: the user is asked before each call. */
  asksFirst?: boolean;
  /** Runs it. What it throws becomes an error result. */
  run(input: Record<string, unknown>, context: ToolContext): Promise<ToolOutput | string>;
}

/** A text as a tool's output. */
export const textOutput = (text: string, isError = false): ToolOutput => ({
  content: [{ type: "text", text }],
  ...(isError ? { isError } : {}),
});

/** Definition of a tool, for the model. */
export function definitionOf({ name, description, parameters }: Tool): ToolDefinition {
  return { name, ...(description ? { description } : {}), ...(parameters ? { parameters } : {}) };
}

/** Options of a tool call. */
export interface RunToolsOptions extends ToolContext {
  /** The tools of the request; a call to any other is answered with their names. */
  tools: readonly Tool[];
  /** Asked before a tool that writes or runs something; default: refused. */
  approve?: (call: ToolCallBlock) => Promise<boolean>;
}

/** Result of a call that was running when it was aborted, or when its process ended. */
export const INTERRUPTED = "The call was interrupted: its result was never recorded. It was not run again.";

/** Result of a call whose turn ended before it ran. */
export const NOT_RUN = "The call was not run: the user ended the turn before it.";

/** Result of a call in an answer that reached its limit: it may be half a call. */
export const CUT_OFF = "The call was not run: the answer was cut off at its limit. Make it again, shorter.";

/** Runs one call. Whatever happens becomes a result: a call never stays without one. */
export async function runTool(
  call: ToolCallBlock,
  { tools, approve, ...context }: RunToolsOptions,
): Promise<ToolResultMessage> {
  const { signal } = context;
  if (signal.aborted) return refused(call, NOT_RUN);
  const tool = tools.find(({ name }) => name === call.name);
  const names = tools.map(({ name }) => name).join(", ") || "none";
  if (!tool) return refused(call, `There is no tool ${call.name}. There are: ${names}.`);
  let isRunning = false;
  try {
    if (tool.asksFirst && !(approve && (await untilAborted(approve(call), signal))))
      return refused(call, "The user did not allow this call.");
    isRunning = true;
    const output = await untilAborted(tool.run(call.arguments, context), signal);
    return resultOf(call, typeof output === "string" ? textOutput(output) : output);
  } catch (error) {
    if (signal.aborted) return refused(call, isRunning ? INTERRUPTED : NOT_RUN);
    return refused(call, error instanceof Error ? error.message : String(error));
  }
}

/** The results for calls that have none and get none, as entries. */
export function refusedResults(calls: readonly ToolCallBlock[], why: string): NewEntry[] {
  return calls.map((call) => message.of({ message: refused(call, why) }));
}

/** Calls of an answer; none where it failed. */
export const callsOf = (answer: AssistantMessage): ToolCallBlock[] =>
  answer.stopReason === "error" || answer.stopReason === "aborted" ? [] : toolCalls(answer);

const refused = (call: ToolCallBlock, why: string): ToolResultMessage =>
  resultOf(call, textOutput(why, true));

function resultOf(
  call: ToolCallBlock,
  output: Exclude<Awaited<ReturnType<Tool["run"]>>, string>,
): ToolResultMessage {
  const { content, isError = false, details } = output;
  return {
    role: "toolResult",
    toolCallId: call.id,
    toolName: call.name,
    content,
    isError,
    ...(details === undefined ? {} : { details }),
    timestamp: Date.now(),
  };
}

/**
 * The outcome of `work`, or the signal's reason when that comes first: who does not listen to the signal is not waited
 * for, and what comes of it later is let go.
 *
 * @param graceMs how long who does listen may take to end by itself, in milliseconds. Default 0.
 */
export function untilAborted<Result>(
  work: Promise<Result>,
  signal: AbortSignal,
  graceMs = 0,
): Promise<Result> {
  return new Promise((resolve, reject) => {
    const giveUp = () => void setTimeout(() => reject(signal.reason), graceMs);
    if (signal.aborted) giveUp();
    signal.addEventListener("abort", giveUp, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", giveUp));
  });
}

/** Returns whether an error is only the abort of the signal. */
export function isAbort(error: unknown, signal: AbortSignal): boolean {
  const isTold = isSummaryError(error) && error.code === "aborted";
  return signal.aborted && (error === signal.reason || isTold);
}
