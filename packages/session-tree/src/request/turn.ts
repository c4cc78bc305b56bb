import type { ThinkingBlock } from "../message.ts";

/** Text with something to read in it, well-formed Unicode. */
export interface HealedText {
  type: "text";
  text: string;
}

/** The kinds of picture that every provider here reads. */
export type PictureType = "image/png" | "image/jpeg" | "image/gif" | "image/webp";

/** A picture that providers read. */
export interface HealedImage {
  type: "image";
  mediaType: PictureType;
  /** Base64, without a `data:` prefix. */
  data: string;
}

/** What a user turn or a tool result is made of. */
export type UserBlock = HealedText | HealedImage;

/** A model's reasoning that may be sent back, untouched. */
export interface HealedThinking {
  type: "thinking";
  block: ThinkingBlock;
}

/** A tool call with an id and a name that the provider accepts, the id unique within the request. */
export interface HealedCall {
  type: "call";
  id: string;
  name: string;
  input: Record<string, unknown>;
}

/** What an assistant turn is made of: calls stand last, thinking never does. */
export type AnswerBlock = HealedText | HealedThinking | HealedCall;

/** The one result of one call. Its content is never empty. */
export interface HealedResult {
  callId: string;
  isError: boolean;
  content: UserBlock[];
}

/** One or more stored messages that a model reads as the user's. */
export interface UserTurn {
  role: "user";
  /** Exactly one for each call of the turn before, in the order of the calls. */
  results: HealedResult[];
  content: UserBlock[];
}

/** One or more stored answers. */
export interface AssistantTurn {
  role: "assistant";
  content: AnswerBlock[];
}

/** A step of a healed conversation: the first is the user's, roles alternate, none is empty. */
export type Turn = UserTurn | AssistantTurn;
