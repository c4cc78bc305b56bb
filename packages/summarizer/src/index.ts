export type {
  SummaryAnswer,
  SummaryProgress,
  SummaryPurpose,
  SummaryRequest,
  SummaryStopReason,
  Summarizer,
} from "./summarizer.ts";
export { SummarizerError, type SummarizerErrorCode } from "./summarizer-error.ts";
