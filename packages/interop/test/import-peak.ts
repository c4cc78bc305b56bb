/** A program: imports a file into the store of a folder, and says how many entries that were and what the process took. */
import { readFileSync } from "node:fs";
import { importSessions } from "@espalier/interop/node";
import { fileStore } from "@espalier/session-tree/node";

const [path, home] = process.argv.slice(2) as [string, string];
const store = fileStore({ home });
let entries = 0;
for await (const report of importSessions(path, { store })) entries += report.added;
console.log(JSON.stringify({ entries, megabytes: peakMegabytes() }));

/** In what `maxRSS` says on Linux, a process begins with what the one that started it held. */
function peakMegabytes(): number {
  if (process.platform !== "linux") return process.resourceUsage().maxRSS / 1024;
  return Number(/^VmHWM:\s*(\d+) kB$/m.exec(readFileSync("/proc/self/status", "utf8"))![1]) / 1024;
}
