import { testShortForms } from "./bundled-program.ts";

testShortForms({
  conversation: { thresholds: 3, overflows: 1, kills: 40, "went on to the end": 1, "killed in a row": 5 },
});
