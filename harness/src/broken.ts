import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { calls } from "./calls.ts";
import { cut } from "./cut.ts";
import { Findings, type Harness } from "./harness.ts";
import { kill } from "./kill.ts";
import { schedule } from "./schedule.ts";
import { share } from "./share.ts";
import { type StoreName, storeNames } from "./store-named.ts";

/** The trials that must catch each store, which leaves out one part of the protocol. */
const CATCHES: readonly [StoreName, string, Harness][] = [
  ["no-healing", "cut", cut],
  ["short-counts-ignored", "calls", calls],
  ["promises-append-file", "share", share],
  ["ack-before-write", "kill", kill],
  ["rewrite-in-place", "share", share],
  // By search: one round is enough, whatever the machine does.
  ...storeNames
    .filter((store) => store !== "file")
    .map((store): [StoreName, string, Harness] => [store, "schedule", schedule]),
];

/** Rounds of one trial, each with the next seed, before a store counts as not caught. */
const ROUNDS = 25;

/**
 * The trials on trial: each of seven broken stores must be caught, and what is said of it must be a fault of the store.
 * A race shows itself in some runs only: on a machine where nobody happened to write between two pieces of somebody
 * else's line, one round of `share` finds nothing to complain of. So a trial is repeated with the next seed until it has
 * caught its store; the figure says how many rounds that took.
 */
export const broken: Harness = async (options) => {
  const findings = new Findings();
  for (const [store, name, harness] of CATCHES) {
    let isCaught = false;
    for (let round = 0; round < ROUNDS && !isCaught; round += 1) {
      const folder = join(options.folder, `${store}-${name}-${round}`);
      mkdirSync(folder);
      const { faults } = await harness({
        ...options,
        seed: options.seed + round,
        store,
        folder,
        isShort: true,
      });
      findings.count(`${store} caught by ${name}, rounds`);
      isCaught = faults.length > 0;
    }
    findings.expect(isCaught, () => `The store "${store}" was not caught by the trial "${name}".`);
  }
  return findings;
};
