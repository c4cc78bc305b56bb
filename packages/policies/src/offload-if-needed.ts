import { DEFAULT_COMPACTION_SETTINGS, thresholdOf } from "@espalier/compaction";
import {
  type ContextMessage,
  contentBlocks,
  estimateTokens,
  isFailedAnswer,
  messageText,
  type ToolResultMessage,
} from "@espalier/session-tree";
import { memoryOffloadStorage } from "./memory-offload-storage.ts";
import { offloadedPath, offloadReference, withText } from "./offload-reference.ts";
import { DEFAULT_OFFLOAD_SETTINGS, type OffloadSettings } from "./offload-settings.ts";

/** When results move out, and where to. Sizes are tokens; defaults as in `OffloadSettings`. */
export interface OffloadOptions
  extends Partial<Pick<OffloadSettings, "offloadThreshold" | "offloadMinTokens">> {
  /** Where a text will be kept. Default: numbered paths in a folder `offloaded`. */
  pathFor?: (text: string) => string;
  /** Tokens of one message. Default: characters / 4. */
  estimate?: (message: ContextMessage) => number;
  /** Size of what is judged. Default: the messages as estimated. */
  tokens?: number;
  /** The whole text of a result, where the message has been shortened. Default: that of the message. */
  originalOf?: (message: ToolResultMessage, index: number) => string;
}

/** A result that moves to a file. */
export interface OffloadedResult {
  /** Its place among the messages. */
  index: number;
  path: string;
  text: string;
}

/** Messages after results were moved out, and whether that was enough. */
export interface OffloadResult {
  messages: ContextMessage[];
  offloadedCount: number;
  freedTokens: number;
  stillExceedsThreshold: boolean;
  /** What has to be written before the messages are used. */
  files: OffloadedResult[];
}

/**
 * Replaces large tool results by references to files, oldest first, until the messages are no longer above the
 * threshold. Pure: the files it lists are for the caller to write. Those after the newest answer stay, the model has
 * not read them; so do results with media, which a text file cannot hold.
 */
export function offloadIfNeeded(
  messages: readonly ContextMessage[],
  options: OffloadOptions = {},
): OffloadResult {
  const {
    offloadThreshold = thresholdOf(DEFAULT_COMPACTION_SETTINGS),
    offloadMinTokens = DEFAULT_OFFLOAD_SETTINGS.offloadMinTokens,
    pathFor = memoryOffloadStorage().pathFor,
    estimate = estimateTokens,
    originalOf = messageText,
  } = options;
  const after = [...messages];
  const files: OffloadedResult[] = [];
  let tokens = options.tokens ?? messages.reduce((sum, message) => sum + estimate(message), 0);
  let freedTokens = 0;
  const newestAnswer = messages.findLastIndex(
    (message) => message.role === "assistant" && !isFailedAnswer(message),
  );
  for (let index = 0; index < newestAnswer && tokens > offloadThreshold; index++) {
    const message = messages[index]!;
    if (!canMove(message) || estimate(message) < offloadMinTokens) continue;
    const text = originalOf(message, index);
    const path = pathFor(text);
    const reference = withText(message, offloadReference(path));
    const freed = estimate(message) - estimate(reference);
    if (freed <= 0) continue;
    files.push({ index, path, text });
    after[index] = reference;
    freedTokens += freed;
    tokens -= freed;
  }
  return {
    messages: after,
    offloadedCount: files.length,
    freedTokens,
    stillExceedsThreshold: tokens > offloadThreshold,
    files,
  };
}

function canMove(message: ContextMessage): message is ToolResultMessage {
  return (
    message.role === "toolResult" &&
    offloadedPath(message) === undefined &&
    contentBlocks(message).every(({ type }) => type === "text")
  );
}
