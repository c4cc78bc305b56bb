/** A program: imports a file into a store of its own, and says how many entries that were and what the process took. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { importSessions } from "@espalier/interop/node";
import { fileStore } from "@espalier/session-tree/node";

const home = mkdtempSync(join(tmpdir(), "espalier-peak-"));
let entries = 0;
try {
  const store = fileStore({ home });
  for await (const report of importSessions(process.argv[2]!, { store })) entries += report.added;
} finally {
  rmSync(home, { recursive: true, force: true });
}
console.log(JSON.stringify({ entries, megabytes: process.resourceUsage().maxRSS / 1024 }));
