import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { findingsOf, type Harness, type HarnessOptions } from "./harness.ts";
import { storeNames } from "./stores.ts";
import { broken, cut, flip } from "./trials/broken.ts";
import { calls } from "./trials/calls.ts";
import { conversation } from "./trials/conversation.ts";
import { fuzz } from "./trials/fuzz.ts";
import { kill } from "./trials/kill.ts";
import { lease } from "./trials/lease.ts";
import { lives } from "./trials/lives.ts";
import { outage } from "./trials/outage.ts";
import { postgres } from "./trials/postgres.ts";
import { power } from "./trials/power.ts";
import { room } from "./trials/room.ts";
import { schedule } from "./trials/schedule.ts";
import { share } from "./trials/share.ts";

/** Every trial, by its name on the command line. */
export const harnesses: Record<string, Harness> = {
  kill,
  conversation,
  cut,
  flip,
  share,
  lease,
  room,
  power,
  outage,
  calls,
  lives,
  schedule,
  broken,
  fuzz,
  postgres,
};

const [first, name = "", ...rest] = process.argv.slice(2);
if (first === "child") await harnesses[name]!.child!(rest);
else await main();

async function main(): Promise<void> {
  const request = readRequest();
  if (!request) {
    const usage = `Usage: npm run harness -- <${Object.keys(harnesses).join("|")}> [--short] [--seed N] [--count N] [--store ${storeNames.join("|")}]`;
    process.stderr.write(`${usage}\n`);
    process.exitCode = 2;
    return;
  }
  const { name, ...options } = request;
  const folder = mkdtempSync(join(tmpdir(), "espalier-harness-"));
  const began = performance.now();
  try {
    const result = await findingsOf(harnesses[name]!, { ...options, folder, program: process.argv[1]! });
    const seconds = Math.round((performance.now() - began) / 100) / 10;
    const { store, seed, isShort } = options;
    process.stdout.write(
      `${JSON.stringify({ harness: name, store, seed, short: isShort, seconds, ...result })}\n`,
    );
    process.exitCode = result.faults.length > 0 ? 1 : 0;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Reads the command line; undefined where it cannot be understood. */
function readRequest(): ({ name: string } & Omit<HarnessOptions, "folder" | "program">) | undefined {
  const { values, positionals } = readParameters() ?? {};
  const [name, ...more] = positionals ?? [];
  if (!values || name === undefined || more.length > 0 || !Object.hasOwn(harnesses, name)) return undefined;
  const { short: isShort, seed, count } = values;
  const store = storeNames.find((known) => known === values.store);
  // A count that is no number would make a trial of no rounds, which passes.
  const areNumbers = [seed, count ?? "1"].every((given) => /^\d{1,9}$/.test(given));
  if (!store || !areNumbers) return undefined;
  return {
    name,
    store,
    isShort,
    seed: Number(seed),
    ...(count === undefined ? {} : { count: Number(count) }),
  };
}

function readParameters() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        short: { type: "boolean", default: false },
        seed: { type: "string", default: "1" },
        count: { type: "string" },
        store: { type: "string", default: "file" },
      },
    });
  } catch {
    // The usage names the options.
    return undefined;
  }
}
