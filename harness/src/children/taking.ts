import { writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { SessionTreeError } from "@espalier/session-tree";
import { storeNamed } from "../store-named.ts";

/** `taking <home> <file>`: at each line it is told, tries to take the lease, says `won` or `busy`; at `release` lets go. */
export async function take([home, file]: string[]): Promise<void> {
  const store = storeNamed("file", home!);
  let release = async (): Promise<void> => undefined;
  writeSync(1, "ready\n");
  for await (const line of createInterface({ input: process.stdin })) {
    if (line === "release") {
      await release();
      writeSync(1, "released\n");
      continue;
    }
    // All are told the same moment, so that they meet.
    while (Date.now() < Number(line));
    try {
      const lease = await store.lease({ file: file! });
      release = () => lease.release();
      writeSync(1, "won\n");
    } catch (error) {
      if (!(error instanceof SessionTreeError)) throw error;
      writeSync(1, `${error.code}\n`);
    }
  }
}
