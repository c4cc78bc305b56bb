import { NOT_RUN, type TurnCall, untilAborted } from "@espalier/engine";
import type { ImageBlock, TextBlock, ToolCallBlock, ToolDefinition } from "@espalier/session-tree";
import type { FileTool } from "@espalier/summarizer";

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

/** Context of {@link runTool}. */
export interface RunToolsOptions extends ToolContext {
  /** The tools of the request; a call to any other is answered with their names. */
  tools: readonly Tool[];
  /** Asked before a tool that writes or runs something; default: refused. */
  approve?: (call: ToolCallBlock) => Promise<boolean>;
}

/** Runs one call by its tool, after the user allowed it where the tool asks first. */
export async function runTool(
  { id, name, input }: TurnCall,
  { tools, approve, ...context }: RunToolsOptions,
): Promise<ToolOutput | string> {
  const tool = tools.find((each) => each.name === name);
  const names = tools.map((each) => each.name).join(", ") || "none";
  if (!tool) return textOutput(`There is no tool ${name}. There are: ${names}.`, true);
  if (tool.asksFirst) {
    const call: ToolCallBlock = { type: "toolCall", id, name, arguments: input };
    const isAllowed = approve
      ? await untilAborted(approve(call), context.signal).catch((error: unknown) => {
          if (context.signal.aborted) return undefined;
          throw error;
        })
      : false;
    if (isAllowed === undefined) return textOutput(NOT_RUN, true);
    if (!isAllowed) return textOutput("The user did not allow this call.", true);
  }
  return tool.run(input, context);
}
