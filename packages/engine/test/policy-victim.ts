/**
 * A process that dies at one of its calls to the file system: `policy-victim <file> <scenario> <call>`. A write it dies
 * in is half done. Prints the number of calls when it survives them all.
 */
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { openSession } from "@espalier/engine";

const [file, scenario, dieAt] = [process.argv[2]!, process.argv[3]!, Number(process.argv[4])];
let calls = 0;

function die(): never {
  process.kill(process.pid, "SIGKILL");
  for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_000);
}

/** Counts the calls of a function, and dies instead of the one that is meant; a write is half done then. */
function mortal(owner: Record<string, unknown>, name: string): void {
  const real = owner[name] as (...given: unknown[]) => unknown;
  owner[name] = (...given: unknown[]) => {
    if (++calls !== dieAt) return real.apply(owner, given);
    const [target, bytes] = given as [number, Uint8Array];
    if (name === "writeSync") real(target, bytes.subarray(0, bytes.length >> 1));
    die();
  };
}

/** Two results that have to move, and then too much for the threshold all the same. */
async function offloads(): Promise<void> {
  const session = await openSession(
    { file },
    {
      policy: "offload",
      policySettings: { offloadThreshold: 3_000 },
      compaction: { contextWindow: 20_000, reserveTokens: 4_000 },
    },
  );
  begin();
  await session.prepareRequest();
  await session.prepareRequest();
  await session.close();
}

/** A window that slides twice. */
async function slides(): Promise<void> {
  const session = await openSession(
    { file },
    {
      policy: "sliding-window",
      policySettings: { tailKeepSize: 4, contextSize: 8, compressionWindowSize: 3 },
    },
  );
  begin();
  for (let at = 0; at < 4; at++) {
    await session.appendMessages([{ role: "user", content: `more ${at}: ${"lorem ipsum ".repeat(150)}` }]);
    while (session.isConsolidating) await new Promise((resolve) => setImmediate(resolve));
  }
  await session.close();
}

function begin(): void {
  for (const name of ["writeSync", "fsyncSync", "fdatasyncSync"]) mortal(fs as never, name);
  for (const name of ["open", "rename", "unlink", "mkdir"]) mortal(fs.promises as never, name);
  syncBuiltinESMExports();
}

await (scenario === "offload" ? offloads() : slides());
process.stdout.write(String(calls));
