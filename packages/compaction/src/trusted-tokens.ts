import type { SessionContext } from "@espalier/session-tree";
import { charsEstimator, type TokenEstimator, usageMeter } from "@espalier/summarizer";

/**
 * The size of a request for the decision whether to compact: the last usage a provider reported that still describes
 * what stands before it (nothing was compacted or edited since), plus an estimate of what follows; without one, an
 * estimate of everything.
 *
 * @param overheadTokens of system prompt and tools, which a provider has counted and an estimate has not
 * @param estimator characters / 4 by default
 */
export function trustedTokens(
  context: SessionContext,
  overheadTokens = 0,
  estimator: TokenEstimator = charsEstimator,
): number {
  const isTrusted = (index: number) => !context.prefixChanged[index];
  const { tokens, usageIndex } = usageMeter(estimator).measure(context.messages, isTrusted);
  return usageIndex === null ? tokens + overheadTokens : tokens;
}
