import type { Session } from "@espalier/engine";
import type { Model } from "./model.ts";
import type { RunToolsOptions } from "./run-tools.ts";
import type { Tool } from "./tool.ts";

export interface AgentOptions {
  session: Session;
  model: Model;
  /** What the model can have done. Default: nothing. */
  tools?: readonly Tool[];
  system?: string;
  /** Asked before a tool that writes or runs something; default: such calls are refused. */
  approve?: RunToolsOptions["approve"];
  /** How long to wait before a request that was too long is sent again, in milliseconds. Default 100. */
  overflowRetryDelayMs?: number;
}

export interface RunOptions {
  /** How often the model may ask for tools before it answers. Default 50. */
  maxIterations?: number;
}
