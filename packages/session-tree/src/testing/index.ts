export { type CheckOptions, checkAnthropicRequest } from "./anthropic-rules.ts";
export {
  type Expectation,
  header as testHeader,
  line as testLine,
  type StoreUnderTest,
  type TestTools,
} from "./conformance/store-under-test.ts";
export { type Fault, type FaultPoint, faultStore } from "./fault-store.ts";
export { type GrownTree, type GrowOptions, growEntries, growTree } from "./grow-tree.ts";
export { type LoopbackServer, startLoopbackServer } from "./loopback-server.ts";
export { chatProblems, type Json, responsesProblems } from "./openai-rules.ts";
export { SLOW_TEXTS } from "./slow-texts.ts";
export { storeConformance } from "./store-conformance.ts";
export { type WrongField, type WrongFieldPlace, wrongFields } from "./wrong-fields.ts";
