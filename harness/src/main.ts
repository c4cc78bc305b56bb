import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { findingsOf, type HarnessOptions } from "./harness.ts";
import { storeNames } from "./stores.ts";
import { harnesses } from "./trials.ts";

const [first, name = "", ...rest] = process.argv.slice(2);
if (first === "child") await (await harnesses[name]!()).child!(rest);
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
    const harness = await harnesses[name]!();
    const result = await findingsOf(harness, { ...options, folder, program: process.argv[1]! });
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
  const { values, positionals } = readParameters();
  const [name, ...more] = positionals;
  if (!values || name === undefined || more.length > 0 || !Object.hasOwn(harnesses, name)) return undefined;
  const { short: isShort, seed, count } = values;
  const store = storeNames.find((known) => known === values.store);
  // A count that is no number would make a trial of no rounds, which passes.
  const areNumbers = [seed, count ?? "1"].every((given) => /^\d{1,9}$/.test(given));
  if (!store || !areNumbers) return undefined;
  return { name, store, isShort, seed: Number(seed), ...(count !== undefined && { count: Number(count) }) };
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
    return { values: undefined, positionals: [] };
  }
}
