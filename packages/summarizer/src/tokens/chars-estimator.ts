import { CHARS_PER_TOKEN, estimateTokens } from "@espalier/session-tree";
import type { TokenEstimator } from "./token-estimator.ts";

/** Characters / 4, rounded up per message: quick, and right within a quarter for English prose and code. */
export const charsEstimator: TokenEstimator = {
  name: "chars",
  overhead: 0,
  estimate: estimateTokens,
  text: (text) => Math.ceil(text.length / CHARS_PER_TOKEN),
};
