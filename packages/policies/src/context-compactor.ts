import { type ContextMessage, estimateTotal } from "@espalier/session-tree";
import { missingSections, type Summarizer, SummarizerError } from "@espalier/summarizer";
import { cleanupOffloadedFiles } from "./cleanup-offloaded-files.ts";
import type { CompactOptions, CompactResult } from "./compact-result.ts";
import { buildCompressedHistory, type SplitMessages, splitMessages } from "./compressed-history.ts";
import { type GenerateSummaryOptions, generateSummary } from "./generate-summary.ts";
import type { OffloadStorage } from "./offload-storage.ts";
import { COMPACT_SUMMARY_SECTIONS } from "./prompts/compact-summary.ts";
import { offloadedPaths, restoreOffloadedContent } from "./restore-offloaded-content.ts";

/** What differs from the defaults, and who is told; `targetTokens` and the like as in `CompactOptions`. */
export interface ContextCompactorOptions
  extends CompactOptions,
    Pick<GenerateSummaryOptions, "sleep" | "log" | "signal"> {
  /** Puts the new conversation in the place of the old one; what it throws aborts everything and is thrown. */
  commit?: (messages: readonly ContextMessage[]) => Promise<void>;
  /** Told when all is done. */
  notify?: (result: CompactResult) => void;
}

/** The summarizer for a model; for the one at hand where none is named. */
export type SummarizerForModel = (model: string | undefined) => Summarizer;

/**
 * Compacts a plain list of messages (origins 003): split, read offloaded results back, summarise, build, commit, remove
 * the files that nothing refers to any more, tell the user.
 */
export class ContextCompactor {
  readonly #storage: OffloadStorage;
  readonly #summarizer: SummarizerForModel;
  readonly #options: ContextCompactorOptions;

  /** @param summarizer one, or a function that gives the one for `options.model` */
  constructor(
    storage: OffloadStorage,
    summarizer: Summarizer | SummarizerForModel,
    options: ContextCompactorOptions = {},
  ) {
    this.#storage = storage;
    this.#summarizer = typeof summarizer === "function" ? summarizer : () => summarizer;
    this.#options = options;
  }

  /** A summary that cannot be had is a result (`success: false`, the messages as they were); an abort is thrown. */
  async compact(messages: readonly ContextMessage[]): Promise<CompactResult> {
    const { toCompress, toPreserve } = this.splitMessages(messages);
    if (toCompress.length === 0) return this.#tell(unchanged(messages, true));
    const restored = await this.restoreOffloadedContent(toCompress);
    let summary: string;
    try {
      summary = await this.generateSummary(restored);
    } catch (error) {
      if (!(error instanceof SummarizerError) || error.code === "aborted") throw error;
      (this.#options.log ?? console).error("Compaction failed, history unchanged", { error });
      return this.#tell(unchanged(messages, false));
    }
    const compressed = this.buildCompressedHistory(summary, toPreserve);
    await this.#options.commit?.(compressed);
    const deletedFiles = await this.cleanupOffloadedFiles(compressed);
    const previousTokens = estimateTotal(messages);
    const currentTokens = estimateTotal(compressed);
    const missing = missingSections(summary, COMPACT_SUMMARY_SECTIONS);
    return this.#tell({
      messages: compressed,
      previousTokens,
      currentTokens,
      freedTokens: previousTokens - currentTokens,
      preservedCount: toPreserve.length,
      deletedFiles,
      ...(missing.length > 0 ? { missingSections: missing } : {}),
      success: true,
    });
  }

  /** The step `splitMessages`, with the compactor's `preserveCount`. */
  splitMessages(messages: readonly ContextMessage[]): SplitMessages {
    return splitMessages(messages, this.#options.preserveCount);
  }

  /** The step `restoreOffloadedContent`, from the compactor's storage; a copy of the list where nothing was offloaded. */
  async restoreOffloadedContent(messages: readonly ContextMessage[]): Promise<ContextMessage[]> {
    if (offloadedPaths(messages).length === 0) return [...messages];
    return restoreOffloadedContent(messages, this.#storage);
  }

  /** The step `generateSummary`, by the compactor's summarizer. Throws what that throws. */
  generateSummary(messages: readonly ContextMessage[]): Promise<string> {
    return generateSummary(messages, {
      ...this.#options,
      summarizer: this.#summarizer(this.#options.model),
    });
  }

  /** The step `buildCompressedHistory`: the summary, then what is preserved. */
  buildCompressedHistory(summary: string, preserved: readonly ContextMessage[]): ContextMessage[] {
    return buildCompressedHistory(summary, preserved);
  }

  /** Removes every file but those that these messages refer to. */
  cleanupOffloadedFiles(messages: readonly ContextMessage[]): Promise<string[]> {
    return cleanupOffloadedFiles(this.#storage, new Set(offloadedPaths(messages)), this.#options.log);
  }

  #tell(result: CompactResult): CompactResult {
    this.#options.notify?.(result);
    return result;
  }
}

function unchanged(messages: readonly ContextMessage[], success: boolean): CompactResult {
  const tokens = estimateTotal(messages);
  return {
    messages: [...messages],
    previousTokens: tokens,
    currentTokens: tokens,
    freedTokens: 0,
    preservedCount: messages.length,
    deletedFiles: [],
    success,
  };
}
