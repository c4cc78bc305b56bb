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
  type JudgedRow,
  type JudgedSession,
  type JudgeForecast,
  type JudgeOptions,
} from "./judge.ts";
export { type Cut, Examination, type Measures } from "./measures.ts";
export { reportPage } from "./page.ts";
export { CATEGORIES, type Category } from "./probes.ts";
export { type Cuts, cutsOf } from "./rounds.ts";
export { atlas } from "./sessions/atlas.ts";
export { queue } from "./sessions/queue.ts";
export { search } from "./sessions/search.ts";
export { shop } from "./sessions/shop.ts";
export { Transcript } from "./transcript.ts";
