export { compactionAt, contextViewAt, growthTo, originsOf } from "./context.ts";
export { gistAt, gistOfFields, oneLine, providerError } from "./entry-gist.ts";
export { oneAfterTheOther } from "./long-work.ts";
export { BOOKKEEPING, OutlineRows, outlineOf, ROW_KINDS } from "./outline.ts";
export { factsOf, findText, type SessionReader, spendingOf, treeReader } from "./tree-reader.ts";
