import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { calls } from "./calls.ts";
import { cut } from "./cut.ts";
import { Findings, type Harness } from "./harness.ts";
import { kill } from "./kill.ts";
import { share } from "./share.ts";
import type { StoreName } from "./store-named.ts";

/** Which trial must catch which store, each of which leaves out one part of the protocol. */
const CATCHES: readonly [StoreName, string, Harness][] = [
  ["no-healing", "cut", cut],
  ["short-counts-ignored", "calls", calls],
  ["promises-append-file", "share", share],
  ["ack-before-write", "kill", kill],
  ["rewrite-in-place", "share", share],
];

/** The trials on trial: each of five broken stores must be caught, and what is said of it must be a fault of the store. */
export const broken: Harness = async (options) => {
  const findings = new Findings();
  for (const [store, name, harness] of CATCHES) {
    const folder = join(options.folder, store);
    mkdirSync(folder);
    const { faults } = await harness({ ...options, store, folder, isShort: true });
    findings.count(`${store} caught by ${name}`, faults.length > 0 ? 1 : 0);
    findings.expect(faults.length > 0, () => `The store "${store}" was not caught by the trial "${name}".`);
  }
  return findings;
};
