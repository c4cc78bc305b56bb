import type { AssistantMessage, ThinkingBlock } from "../message.ts";
import type { SessionContext } from "../session-context.ts";
import type { HealedTool } from "./system-prompt.ts";
import type { Turn } from "./turn.ts";

/** A healed conversation and what stands beside it: all that a format needs. */
export interface Conversation {
  /** Undefined when nobody said anything. */
  system: string | undefined;
  tools: HealedTool[];
  /** At least one. */
  turns: Turn[];
}

/** What goes around the healing instead of through it. */
export interface Carried<Request> {
  /** Healed in place of the context. */
  context: SessionContext;
  /** Puts back what was taken out. */
  restore(request: Request): Request;
}

/** A provider's way to write a request. A new provider is a value of this shape. */
export interface RequestFormat<Request> {
  /** Most characters of a call's id; the alphabet is `A-Z a-z 0-9 _ -` everywhere. */
  readonly callIdLength: number;
  /** Most characters of a tool's name, of the same alphabet. */
  readonly toolNameLength: number;
  /**
   * Whether the provider can read this block of an answer of the same model. False leaves the block out.
   * Whether the answer's prefix is still the same has been asked before.
   */
  acceptsThinking(block: ThinkingBlock, answer: AssistantMessage): boolean;
  /** Writes the request. Pure, and turn by turn: a turn is written the same whatever follows it, but for the last one. */
  render(conversation: Conversation): Request;
  /**
   * Takes out of a context what only this provider can say, before healing, which knows the common blocks alone, turns it
   * into words; what was taken out is put back into the rendered request. Absent: such blocks become words.
   */
  carry?(context: SessionContext, model: SessionContext["model"]): Carried<Request>;
}
