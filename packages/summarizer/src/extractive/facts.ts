import type { SummaryPurpose } from "../summarizer.ts";
import type { PreviousSummary } from "./previous-summary.ts";
import type { SessionDigest } from "./session-digest.ts";

/** What the parts of a summary are written from. */
export interface Facts {
  purpose: SummaryPurpose;
  digest: SessionDigest;
  /** What earlier summaries said; empty lists where there are none. */
  previous: PreviousSummary;
  /** What branches that are not on the path had come to. */
  branches: PreviousSummary;
  /** True for a text that the user asked to attend to. */
  focus: (text: string) => boolean;
}
