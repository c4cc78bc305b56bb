import type { SessionContext } from "@espalier/session-tree";
import { usageMeter } from "@espalier/summarizer";

/**
 * The size of a context for the decision whether to compact: the last usage a provider reported that still describes
 * what stands before it (nothing was compacted or edited since), plus characters / 4 of what follows; without one,
 * characters / 4 of everything.
 */
export function trustedTokens(context: SessionContext): number {
  return usageMeter().measure(context.messages, (index) => !context.prefixChanged[index]).tokens;
}
