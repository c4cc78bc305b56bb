// Separate from agent.ts: each tool uses these types, and no tool knows the agent.
import { NOT_RUN, type TurnCall, untilAborted } from "@espalier/engine";
import type { ImageBlock, TextBlock, ToolCallBlock, ToolDefinition } from "@espalier/session-tree";
import type { FileTool } from "@espalier/summarizer";

/** Result of a tool call. */
export interface ToolOutput {
  /** Content for the model. */
  content: (TextBlock | ImageBlock)[];
  /** True if the tool failed; the model is informed. Default false. */
  isError?: boolean;
  /** Data for people and extensions, stored in the entry. It is never sent to a model. */
  details?: unknown;
}

/** Context of a tool call, besides its arguments. */
export interface ToolContext {
  /** Working folder of the agent. */
  cwd: string;
  /** Signal that is aborted with the run. The tool is then no longer awaited. */
  signal: AbortSignal;
}

/** A tool that a model can call. */
export interface Tool extends ToolDefinition {
  /** Returns the files that a call reads or writes; see `FileTool`. */
  files?: FileTool["files"];
  /** True for tools that write or run something: the user has to allow each call. */
  asksFirst?: boolean;
  /** Runs the tool. An error that it throws becomes an error result. */
  run(input: Record<string, unknown>, context: ToolContext): Promise<ToolOutput | string>;
}

/** Returns a text as a tool's output. */
export const textOutput = (text: string, isError = false): ToolOutput => ({
  content: [{ type: "text", text }],
  ...(isError ? { isError } : {}),
});

/** Returns the definition of a tool for the model. */
export function definitionOf({ name, description, parameters }: Tool): ToolDefinition {
  return { name, ...(description ? { description } : {}), ...(parameters ? { parameters } : {}) };
}

/** Options of {@link runTool}. */
export interface RunToolsOptions extends ToolContext {
  /** Tools of the request. A call to another tool gets their names as an error result. */
  tools: readonly Tool[];
  /** Called before a tool with `asksFirst`; returns whether the user allows the call. Default: it is refused. */
  approve?: (call: ToolCallBlock) => Promise<boolean>;
}

/** Runs a call with its tool. A tool with `asksFirst` runs only if the user allows the call. */
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
