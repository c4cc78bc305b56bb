import type { ContextMessage } from "@espalier/session-tree";

/** How a policy wants its summary asked for and written; what is left out is as for the default policy. */
export interface SummaryStyle {
  /** What to write and in which form. Default: the summarization prompt, or its update. */
  instructions?: string;
  /** Headings that the summary is asked for. */
  sections?: readonly string[];
  /** The system prompt of the request. */
  systemPrompt?: string;
  /** What a model is shown of the messages. Default: escaped data between tags. */
  render?: (messages: readonly ContextMessage[]) => string;
  /**
   * To how many characters tool results are cut, one limit after the other, until the request fits. Default 2,000, then
   * less; Infinity shows them whole where there is room.
   */
  toolResultLimits?: readonly number[];
  /** The most tokens of the summary, however much it replaces; never more than there is room for. */
  maxOutputTokens?: number;
  /** The model that is asked, where it shall be another than the summarizer's own. */
  model?: string;
  /** How often a model is asked in all; after the n-th failure one waits n seconds. Default: only passing trouble is waited for. */
  attempts?: number;
  /** What the text of the summary begins with, its blank line included. */
  heading?: string;
}

/** The prose behind the heading and the earlier summaries that a policy wants in front of it. */
export function frameSummary(
  prose: string,
  { style, stackedOn }: { style?: SummaryStyle | undefined; stackedOn?: string | undefined },
): string {
  return `${style?.heading ?? ""}${stackedOn ? `${stackedOn}\n` : ""}${prose}`;
}
