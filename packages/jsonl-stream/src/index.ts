export {
  type BilledUsage,
  type CompactionErrorCode,
  type DatabaseErrorCode,
  EspalierError,
  type EspalierErrorCode,
  type EspalierErrorOptions,
  type FailedAttempt,
  type LeaseHolder,
  type LogErrorCode,
  type SessionErrorCode,
  type SummaryErrorCode,
} from "./error.ts";
export type { LineFinder, ScanOptions } from "./line-window.ts";
export {
  type ByteView,
  bytesView,
  type ForwardOptions,
  forEachLine,
  type LineVisitor,
  NewlineFinder,
} from "./line-window.ts";
export {
  checkJson,
  encodeLines,
  formatLine,
  isSpace,
  jsonText,
  LINE_LIMITS,
  type LineLimits,
  type LineProblem,
  LONGEST_PARSED,
  type ParsedLine,
  parseLine,
  type Salvaged,
  salvageLine,
  skipSpace,
  skipValue,
  wellFormedJson,
} from "./lines.ts";
export {
  type BackwardLineVisitor,
  type BackwardOptions,
  forEachLineBackward,
  type Line,
  scanLines,
} from "./scan.ts";
