import type { SummaryPurpose } from "./summarizer.ts";

const WHOLE = [
  "Goal",
  "Constraints & Preferences",
  "Progress",
  "Key Decisions",
  "Next Steps",
  "Critical Context",
];

/**
 * The headings of a summary, in order, by what it is for. `Progress` has the sub-headings `Done`, `In Progress` and
 * `Blocked`. They stay English whatever language is spoken: programs read them.
 */
export const SUMMARY_SECTIONS: Readonly<Record<SummaryPurpose, readonly string[]>> = {
  history: WHOLE,
  "turn-prefix": ["Original Request", "Early Progress", "Context for Suffix"],
  branch: WHOLE,
  merge: WHOLE,
  chunk: WHOLE,
  combine: WHOLE,
};
