import type { Session } from "@espalier/engine";
import type { Model } from "./model.ts";
import type { RunToolsOptions } from "./run-tools.ts";
import type { Tool } from "./tool.ts";

/** What an {@link Agent} is made of. It closes nothing: the session stays its caller's. */
export interface AgentOptions {
  /** Everything is kept here; extensions, policies and settings are those it was opened with. */
  session: Session;
  /** Who answers, until `setModel`. */
  model: Model;
  /** What the model can have done. Default: nothing. */
  tools?: readonly Tool[];
  /** The system prompt; a policy may add to it. Default: none. */
  system?: string;
  /** Asked before a tool that writes or runs something; default: such calls are refused. */
  approve?: RunToolsOptions["approve"];
  /** How long to wait before a request that was too long is sent again, in milliseconds. Default 100. */
  overflowRetryDelayMs?: number;
}

/** What one run is allowed. */
export interface RunOptions {
  /** How often the model may ask for tools before it answers. Default 50. */
  maxIterations?: number;
}
