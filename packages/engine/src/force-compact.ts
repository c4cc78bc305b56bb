import type { NothingToCompact } from "@espalier/compaction";
import type { CompactResult } from "@espalier/policies";
import { SummarizerError } from "@espalier/summarizer";
import type { CompactionResult, CompactSessionOptions } from "./compaction-run.ts";
import { policyInForce } from "./policy-in-force.ts";
import type { SessionState } from "./session-state.ts";

/**
 * Compacts whatever the thresholds say, and tells what came of it in the terms of a conversation. Nothing to compact is
 * a success that freed nothing; a summary that could not be had is `success: false`, logged, and the conversation is as
 * it was. Everything else is thrown: an abort, a refusal, a log that cannot be written.
 */
export async function forceCompact(
  session: SessionState,
  options: CompactSessionOptions,
  compact: (options: CompactSessionOptions) => Promise<CompactionResult | NothingToCompact>,
): Promise<CompactResult> {
  const policy = policyInForce(session, options);
  const previousTokens = sizeIn(session, policy.estimate);
  let result: CompactionResult | NothingToCompact;
  let success = true;
  try {
    result = await compact({ ...options, policy, reason: "manual" });
  } catch (error) {
    if (!(error instanceof SummarizerError) || error.code === "aborted") throw error;
    session.log.error("Compaction failed, history unchanged", { error });
    result = { eligible: false, reason: error.message };
    success = false;
  }
  const { messages } = session.core.context;
  const currentTokens = sizeIn(session, policy.estimate);
  return {
    messages: [...messages],
    previousTokens,
    currentTokens,
    freedTokens: previousTokens - currentTokens,
    preservedCount: result.eligible ? result.preservedCount : messages.length,
    deletedFiles: result.eligible ? result.deletedFiles : [],
    ...(result.eligible && result.missingSections ? { missingSections: result.missingSections } : {}),
    success,
  };
}

type Estimate = SessionState["policy"]["estimate"];

const sizeIn = ({ core }: SessionState, estimate: Estimate): number =>
  core.context.messages.reduce((sum, message) => sum + estimate(message), 0);
