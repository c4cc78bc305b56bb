import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { children } from "./children.ts";
import { harnesses } from "./harnesses.ts";
import { type StoreName, storeNames } from "./store-named.ts";

const [first, ...rest] = process.argv.slice(2);
if (first === "child") await children[rest[0]!]!(rest.slice(1));
else await main();

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      short: { type: "boolean", default: false },
      seed: { type: "string", default: "1" },
      count: { type: "string" },
      store: { type: "string", default: "file" },
    },
  });
  const harness = harnesses[positionals[0] ?? ""];
  if (!harness || !storeNames.includes(values.store as StoreName)) {
    const usage = `Usage: npm run harness -- <${Object.keys(harnesses).join("|")}> [--short] [--seed N] [--count N] [--store ${storeNames.join("|")}]`;
    process.stderr.write(`${usage}\n`);
    process.exitCode = 2;
    return;
  }
  const folder = mkdtempSync(join(tmpdir(), "espalier-harness-"));
  const began = performance.now();
  try {
    const seed = Number(values.seed);
    const result = await harness({
      seed,
      isShort: values.short,
      ...(values.count === undefined ? {} : { count: Number(values.count) }),
      store: values.store as StoreName,
      folder,
      program: process.argv[1]!,
    });
    const seconds = Math.round((performance.now() - began) / 100) / 10;
    const head = { harness: positionals[0], store: values.store, seed, short: values.short, seconds };
    process.stdout.write(`${JSON.stringify({ ...head, ...result })}\n`);
    process.exitCode = result.faults.length > 0 ? 1 : 0;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
