export {
  COLUMNS,
  type Column,
  type DetailedRow,
  type EvaluatedSession,
  type EvaluateOptions,
  evaluate,
  type Report,
  type Row,
  type SessionReport,
} from "./evaluate.ts";
export {
  forecastJudgement,
  type JudgeBill,
  type JudgedRow,
  type JudgedSession,
  type JudgeForecast,
  type JudgeOptions,
} from "./judge.ts";
export { type Cut, Examination, type Measures } from "./measures.ts";
export { reportPage } from "./page.ts";
export { CATEGORIES, type Category } from "./probes.ts";
export { type Cuts, cutsOf, forecastSummaries, type Round } from "./rounds.ts";
export { type ReadCall, ReadMessage, Transcript } from "./transcript.ts";
