import type { AssistantMessage, NewEntry, ToolCallBlock, ToolResultMessage } from "@espalier/session-tree";
import { message, toolCalls } from "@espalier/session-tree";
import { type Tool, type ToolContext, textOutput } from "./tool.ts";

export interface RunToolsOptions extends ToolContext {
  tools: readonly Tool[];
  /** Asked before a tool that writes or runs something; default: refused. */
  approve?: (call: ToolCallBlock) => Promise<boolean>;
}

/** What a call that never ran is answered with. */
export const INTERRUPTED = "The call was interrupted: its result was never recorded. It was not run again.";

/** Runs one call. Whatever happens becomes a result: a call never stays without one. */
export async function runTool(
  call: ToolCallBlock,
  { tools, approve, ...context }: RunToolsOptions,
): Promise<ToolResultMessage> {
  const tool = tools.find(({ name }) => name === call.name);
  const names = tools.map(({ name }) => name).join(", ");
  if (!tool) return resultOf(call, textOutput(`There is no tool ${call.name}. There are: ${names}.`, true));
  if (context.signal.aborted) return resultOf(call, textOutput(INTERRUPTED, true));
  if (tool.asksFirst && !(await approve?.(call)))
    return resultOf(call, textOutput("The user did not allow this call.", true));
  try {
    const output = await abortable(tool.run(call.arguments, context), context.signal);
    return resultOf(call, typeof output === "string" ? textOutput(output) : output);
  } catch (error) {
    const text = context.signal.aborted
      ? INTERRUPTED
      : error instanceof Error
        ? error.message
        : String(error);
    return resultOf(call, textOutput(text, true));
  }
}

/** The results for calls that an earlier process left without one. */
export function interruptedResults(calls: readonly ToolCallBlock[]): NewEntry[] {
  return calls.map((call) => message.of({ message: resultOf(call, textOutput(INTERRUPTED, true)) }));
}

export const callsOf = (answer: AssistantMessage): ToolCallBlock[] =>
  answer.stopReason === "toolUse" || answer.stopReason === "stop" ? toolCalls(answer) : [];

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

/** A tool that does not listen to the signal is not waited for. */
function abortable<Value>(work: Promise<Value>, signal: AbortSignal): Promise<Value> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(new Error("aborted"));
    signal.addEventListener("abort", stop, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}
