import type { ContextMessage } from "@espalier/session-tree";
import {
  DEFAULT_LIMITS,
  type RenderedMessage,
  type RenderLimits,
  renderMessage,
} from "./rendered-message.ts";

/**
 * The messages as escaped data between tags, what a model is shown of them:
 *
 * ```text
 * <transcript>
 * <message role="user">
 * Fix the test.
 * </message>
 * <message role="assistant">
 * I read it first.
 * <call>read(path="a.test.ts")</call>
 * </message>
 * <message role="tool-result" tool="read">
 * …
 * </message>
 * </transcript>
 * ```
 *
 * Everything from a message is escaped ({@link escapeText}), so nothing in it can close a tag or open one. Results,
 * output of commands and arguments are cut to `toolResultLimit` characters (2,000); thinking, system prompts, and
 * commands excluded from the context are left out; media become a word (`[image]`); failed and aborted answers say
 * so (`failed="aborted"`).
 */
export function renderTranscript(
  messages: readonly ContextMessage[],
  limits: Partial<RenderLimits> = {},
): string {
  const all = { ...DEFAULT_LIMITS, ...limits };
  return joinTranscript(messages.map((message) => renderMessage(message, all)));
}

/** A transcript of messages that are rendered already; `note` is a line of our own at the beginning. */
export function joinTranscript(rendered: readonly Pick<RenderedMessage, "text">[], note?: string): string {
  const texts = rendered.flatMap(({ text }) => (text === "" ? [] : [text]));
  return [
    "<transcript>",
    ...(note === undefined ? [] : [`<note>${note}</note>`]),
    ...texts,
    "</transcript>",
  ].join("\n");
}
