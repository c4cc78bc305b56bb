export { type EvaluatedSession, type EvaluateOptions, evaluate } from "./evaluate.ts";
export type { JudgeBill, JudgedRow } from "./judge.ts";
export {
  type Candidate,
  forecastJudgement,
  type Judge,
  type JudgedSession,
  type JudgeForecast,
  type JudgeOptions,
} from "./judge.ts";
export { type Cut, Examination, type Measures } from "./measures.ts";
export { reportPage } from "./page.ts";
export { CATEGORIES, type Category } from "./probes.ts";
export type { Row, RuleFigures, RuleRound, SessionReport } from "./report.ts";
export { COLUMNS, type Column, type DetailedRow, figureText, judgedTable, type Report } from "./report.ts";
export type { Round } from "./rounds.ts";
export { type Cuts, cutsOf, forecastSummaries } from "./rounds.ts";
export { type ReadCall, type ReadMessage, Transcript } from "./transcript.ts";
