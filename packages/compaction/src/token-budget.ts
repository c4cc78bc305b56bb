import { estimateTokens } from "@espalier/session-tree";
import type { Policy } from "./policy.ts";
import { prepareCompaction } from "./prepare-compaction.ts";
import { shouldCompact } from "./should-compact.ts";
import { trustedTokens } from "./trusted-tokens.ts";

/** The default policy: compacts when the context comes near the model's window, and keeps the newest tokens. */
export const tokenBudget: Policy = {
  name: "token-budget",
  judgedAt: "request",
  estimate: estimateTokens,
  judge: ({ context, settings, overheadTokens }) =>
    shouldCompact(trustedTokens(context, overheadTokens), settings.contextWindow, settings)
      ? "threshold"
      : undefined,
  plan: ({ path, settings, overheadTokens }, options) =>
    prepareCompaction(path, settings, { overheadTokens, ...options }),
};
