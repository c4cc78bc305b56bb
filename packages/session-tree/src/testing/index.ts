export { type DrawOptions, drawTree, drawTreeLines } from "../tree/draw.ts";
export { checkAnthropicRequest } from "./anthropic-rules.ts";
export {
  type Expectation,
  header as testHeader,
  line as testLine,
  type StoreUnderTest,
} from "./conformance/store-under-test.ts";
export { faultStore } from "./fault-store.ts";
export { growEntries, growTree } from "./grow-tree.ts";
export { type LoopbackServer, startLoopbackServer } from "./loopback-server.ts";
export { chatProblems, responsesProblems } from "./openai-rules.ts";
export { SLOW_TEXTS } from "./slow-texts.ts";
export { storeConformance } from "./store-conformance.ts";
export { wrongFields } from "./wrong-fields.ts";
