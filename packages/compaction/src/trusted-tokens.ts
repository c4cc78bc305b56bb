import type { SessionContext } from "@espalier/session-tree";
import { usageMeter } from "@espalier/summarizer";

/**
 * The size of a request for the decision whether to compact: the last usage a provider reported that still describes
 * what stands before it (nothing was compacted or edited since), plus characters / 4 of what follows; without one,
 * characters / 4 of everything.
 *
 * @param overheadTokens of system prompt and tools, which a provider has counted and an estimate has not
 */
export function trustedTokens(context: SessionContext, overheadTokens = 0): number {
  const isTrusted = (index: number) => !context.prefixChanged[index];
  const { tokens, usageIndex } = usageMeter().measure(context.messages, isTrusted);
  return usageIndex === null ? tokens + overheadTokens : tokens;
}
