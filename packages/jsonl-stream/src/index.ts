export { type ByteView, bytesView } from "./byte-view.ts";
export { checkJson, LINE_LIMITS, type LineLimits } from "./check-json.ts";
export { encodeLines } from "./encode-lines.ts";
export { type ForwardOptions, forEachLine, type LineVisitor } from "./for-each-line.ts";
export {
  type BackwardLineVisitor,
  type BackwardOptions,
  forEachLineBackward,
} from "./for-each-line-backward.ts";
export { formatLine } from "./format-line.ts";
export { jsonText } from "./json-text.ts";
export { JsonlError, type JsonlErrorCode } from "./jsonl-error.ts";
export type { LineFinder } from "./line-finder.ts";
export type { ScanOptions } from "./line-window.ts";
export { NewlineFinder } from "./newline-finder.ts";
export { type LineProblem, LONGEST_PARSED, type ParsedLine, parseLine } from "./parse-line.ts";
export { type Salvaged, salvageLine } from "./salvage-line.ts";
export { type Line, type NumberedLine, scanLines, scanLinesBackward } from "./scan-lines.ts";
export { isSpace, skipSpace, skipValue } from "./skip-value.ts";
export { wellFormedJson } from "./well-formed-json.ts";
