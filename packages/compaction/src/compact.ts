import type { Usage } from "@espalier/session-tree";
import { addUsage, type FailedAttempt, fileLists, type SummaryAnswer } from "@espalier/summarizer";
import { type AskOptions, askParts, billOf } from "./ask-parts.ts";
import type { CompactionPreparation } from "./compaction-plan.ts";
import { type OmittedEntries, omittedEntries } from "./omitted-entries.ts";
import { joinSummary } from "./summary-blocks.ts";
import { type SummaryPart, summaryParts, TURN_HEADING } from "./summary-parts.ts";
import { frameSummary } from "./summary-style.ts";

/** How a plan is carried out. */
export type CompactOptions = AskOptions;

/** A summary that can be committed. */
export interface CompactResult {
  /** The whole text for the entry: the prose and what stands beside it. */
  summary: string;
  /** What the summarizer wrote. */
  prose: string;
  /** Who wrote it; where two parts have different authors, both. */
  source: string;
  model: SummaryAnswer["model"];
  /** All that was billed, failed attempts included. */
  usage?: Usage;
  /** Attempts that failed before the answers. */
  attempts: FailedAttempt[];
  /** What the requests had to shorten or drop, by part. */
  omitted: { history?: OmittedEntries; turnPrefix?: OmittedEntries };
  /** Headings that were asked for and are not in the prose, over all parts; absent where none is missing. */
  missingSections?: string[];
  readFiles: string[];
  modifiedFiles: string[];
}

/**
 * Carries out a plan: asks for the summary of the history and, when a turn is cut, at the same time for that of its
 * beginning; joins them; adds what stands beside the prose. Writes nothing.
 *
 * @throws SummarizerError with all that was billed; one part failing fails the whole
 */
export async function compact(
  preparation: CompactionPreparation,
  options: CompactOptions,
): Promise<CompactResult> {
  const answered = await askParts(summaryParts(preparation), preparation, options);
  const to = (wanted: SummaryPart["part"]) => answered.find(({ part }) => part.part === wanted);
  const [history, turn] = [to("history"), to("turnPrefix")];
  const prose = [
    history?.answer.text ?? preparation.previousSummary,
    turn && `${TURN_HEADING}\n\n${turn.answer.text}`,
  ]
    .filter(Boolean)
    .join("\n\n---\n\n");
  const answers = answered.map(({ answer }) => answer);
  const usage = answers.map(billOf).reduce((sum, bill) => addUsage(sum, bill), undefined);
  const files = fileLists(preparation.fileOps);
  const omitted = (asked: typeof history) => asked && omittedEntries(asked.answer.omitted, asked.part.ids);
  const missingSections = answers.flatMap(({ missingSections: missing = [] }) => missing);
  const [fromHistory, fromTurn] = [omitted(history), omitted(turn)];
  return {
    summary: joinSummary(
      frameSummary(prose, preparation),
      { ...preparation.blocks, files },
      preparation.settings.contextWindow,
    ),
    prose,
    source: [...new Set(answers.map(({ source = options.summarizer.name }) => source))].join(" + "),
    model: answers[0]!.model,
    ...(usage ? { usage } : {}),
    attempts: answers.flatMap(({ attempts = [] }) => attempts),
    omitted: {
      ...(fromHistory ? { history: fromHistory } : {}),
      ...(fromTurn ? { turnPrefix: fromTurn } : {}),
    },
    ...(missingSections.length > 0 ? { missingSections } : {}),
    ...files,
  };
}
