import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { broken, cut, flip } from "./broken.ts";
import { calls } from "./calls.ts";
import { act } from "./children/acting.ts";
import { converseUntilKilled } from "./children/conversing.ts";
import { append, fillUp, shareLines, take } from "./children.ts";
import { conversation } from "./conversation.ts";
import { fuzz } from "./fuzz.ts";
import type { Harness, HarnessOptions } from "./harness.ts";
import { kill } from "./kill.ts";
import { lease } from "./lease.ts";
import { lives } from "./lives.ts";
import { outage } from "./outage.ts";
import { postgres } from "./postgres.ts";
import { power } from "./power.ts";
import { room } from "./room.ts";
import { schedule } from "./schedule.ts";
import { share } from "./share.ts";
import { storeNames } from "./stores.ts";

const [first, ...rest] = process.argv.slice(2);

/** What the program does when a trial starts it as a child, by the name it is given. */
const children: Record<string, (args: string[]) => Promise<void>> = {
  acting: act,
  appending: append,
  conversing: converseUntilKilled,
  filling: fillUp,
  sharing: shareLines,
  taking: take,
};

/** Every trial, by the name the command line knows it by. */
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

if (first === "child") await children[rest[0]!]!(rest.slice(1));
else await main();

async function main(): Promise<void> {
  const asked = whatIsAsked();
  if (!asked) {
    const usage = `Usage: npm run harness -- <${Object.keys(harnesses).join("|")}> [--short] [--seed N] [--count N] [--store ${storeNames.join("|")}]`;
    process.stderr.write(`${usage}\n`);
    process.exitCode = 2;
    return;
  }
  const { name, ...options } = asked;
  const folder = mkdtempSync(join(tmpdir(), "espalier-harness-"));
  const began = performance.now();
  try {
    const result = await harnesses[name]!({ ...options, folder, program: process.argv[1]! });
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

/** The trial that the command line names, and how it is run; undefined where that cannot be understood. */
function whatIsAsked(): ({ name: string } & Omit<HarnessOptions, "folder" | "program">) | undefined {
  const { values, positionals } = parsed() ?? {};
  const [name, ...more] = positionals ?? [];
  if (!values || name === undefined || more.length > 0 || !Object.hasOwn(harnesses, name)) return undefined;
  const { short: isShort, seed, count } = values;
  const store = storeNames.find((known) => known === values.store);
  // A number that is none would make a trial of no rounds, which passes.
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

function parsed() {
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
    // An option that nobody knows: the usage says which there are.
    return undefined;
  }
}
