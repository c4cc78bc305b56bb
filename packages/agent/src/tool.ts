import type { ImageBlock, TextBlock, ToolDefinition } from "@espalier/session-tree";
import type { FileTool } from "@espalier/summarizer";

/** What a tool gives back. */
export interface ToolOutput {
  /** What the model reads. */
  content: (TextBlock | ImageBlock)[];
  /** True: the model is told that it failed. Default false. */
  isError?: boolean;
  /** Kept in the entry for people and extensions; the model never reads it. */
  details?: unknown;
}

/** What a tool is given besides its arguments. */
export interface ToolContext {
  /** The folder the agent works in. */
  cwd: string;
  /** Fires when the run is aborted; nobody waits for the tool from then on. */
  signal: AbortSignal;
}

/** Something a model can have done. */
export interface Tool extends ToolDefinition {
  /** What the tool declares about files; see `FileTool`. */
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

/** What a model is told of a tool. */
export function definitionOf({ name, description, parameters }: Tool): ToolDefinition {
  return { name, ...(description ? { description } : {}), ...(parameters ? { parameters } : {}) };
}
