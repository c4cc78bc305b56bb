import { checkBelow, checkRanges } from "./settings-range.ts";

/** When messages are counted (origins 000). */
export interface MessageCountSettings {
  /** More active messages than this are compacted. Above `keepLast`. Default 50. */
  maxMessages: number;
  /** The newest messages, which stay as they are. Default 10. */
  keepLast: number;
}

/** `keepLast` as in origins 000, which leaves `maxMessages` open. */
export const DEFAULT_MESSAGE_COUNT_SETTINGS: MessageCountSettings = { maxMessages: 50, keepLast: 10 };

/**
 * The settings with defaults filled in.
 * @throws PolicyError `settings`, naming the keys
 */
export function checkMessageCountSettings(
  settings: Partial<MessageCountSettings> = {},
): MessageCountSettings {
  const all = { ...DEFAULT_MESSAGE_COUNT_SETTINGS, ...settings };
  checkRanges(all, { maxMessages: { least: 2 }, keepLast: { least: 1 } });
  checkBelow(all, "keepLast", "maxMessages");
  return all;
}
