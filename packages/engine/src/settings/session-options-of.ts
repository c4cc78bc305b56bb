import type { SessionOptions } from "../session-state.ts";
import type { Settings } from "./settings.ts";

/** Settings, as a session takes them; who summarises is for the caller to find. */
export function sessionOptionsOf(
  settings: Settings,
): Required<Pick<SessionOptions, "policy" | "policySettings" | "compaction">> {
  const { policy, summarizer: _, fallback: __, extensions: ___, ...all } = settings;
  const { autoCompact, contextWindow, requestBytes, reserveTokens, keepRecentTokens, ...policySettings } =
    all;
  return {
    policy,
    policySettings,
    compaction: { autoCompact, contextWindow, requestBytes, reserveTokens, keepRecentTokens },
  };
}
