import { appendConformance } from "./conformance/append.ts";
import { faultConformance } from "./conformance/faults.ts";
import { idConformance } from "./conformance/ids.ts";
import { leaseConformance } from "./conformance/lease.ts";
import { listConformance } from "./conformance/list.ts";
import { oldFormatConformance } from "./conformance/old-formats.ts";
import { openConformance } from "./conformance/open.ts";
import { readConformance } from "./conformance/read.ts";
import { sessionConformance } from "./conformance/session.ts";
import type { StoreUnderTest, TestTools } from "./conformance/store-under-test.ts";
import { writersConformance } from "./conformance/writers.ts";

/**
 * Tests any store: `storeConformance({name: "memory", open}, {describe, test, expect})`, with the functions of vitest
 * or of another runner that has these three. Each test opens a fresh store and closes it.
 */
export function storeConformance(store: StoreUnderTest, tools: TestTools): void {
  tools.describe(`${store.name} keeps the rules of a session store`, () => {
    const trial = trialOf(store, tools);
    openConformance(trial);
    idConformance(trial);
    appendConformance(trial);
    readConformance(trial);
    writersConformance(trial);
    listConformance(trial);
    leaseConformance(trial);
    sessionConformance(trial);
    faultConformance(trial);
    oldFormatConformance(trial);
  });
}

/** Returns functions that run each test on its own store and always close it. */
function trialOf(underTest: StoreUnderTest, { test, expect }: TestTools) {
  return {
    expect,
    test(name: string, body: (store: Awaited<ReturnType<StoreUnderTest["open"]>>["store"]) => Promise<void>) {
      test(name, async () => {
        const { store, close } = await underTest.open();
        try {
          await body(store);
        } finally {
          await close();
        }
      });
    },
  };
}
