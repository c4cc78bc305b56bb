export { type EvaluatedSession, type EvaluateOptions, evaluate } from "./evaluate.ts";
export {
  forecastJudgement,
  type JudgedSession,
  type JudgeForecast,
  type JudgeOptions,
} from "./judge.ts";
export { Examination } from "./measures.ts";
export { reportPage } from "./page.ts";
export { CATEGORIES, type Category } from "./probes.ts";
export { COLUMNS, type Column, type DetailedRow, type Report, type Row } from "./report.ts";
export { cutsOf, forecastSummaries } from "./rounds.ts";
export { Transcript } from "./transcript.ts";
