import { writeSync } from "node:fs";
import { openPostgresStore } from "@espalier/store-postgres";

/**
 * `appending <address> <session> <name> <from> <count>`: appends the entries `<name>-<n>`, one under the other, and says
 * each number when it is acknowledged. The same entry has the same line every time.
 */
export async function append([address, ref, name, from, count]: string[]): Promise<void> {
  const store = openPostgresStore(address!, { reconnectMs: 60_000 });
  const log = await store.open({ file: ref! }, "write");
  writeSync(1, "ready\n");
  for (let n = Number(from); n < Number(count); n += 1) {
    await log.append([lineOf(name!, n)]);
    writeSync(1, `${n}\n`);
  }
  await store.close();
}

function lineOf(name: string, n: number): string {
  return JSON.stringify({
    type: "custom",
    id: `${name}-${n}`,
    parentId: n === 0 ? null : `${name}-${n - 1}`,
    timestamp: "2026-01-01T00:00:00.000Z",
    customType: "trial",
    data: "x".repeat(200 + ((n * 7919) % 2_000)),
  });
}
