/**
 * A process that appends: `appender <file> <writer> <count> <largest>`. It waits for a byte on its input, appends lines
 * `{"writer","n","text"}` of changing length, and prints the number of each line that was acknowledged.
 */
import { readSync, writeSync } from "node:fs";
import { openAppendFile } from "@espalier/jsonl-stream/node";

const [path, writer, count, largest] = process.argv.slice(2) as [string, string, string, string];
// Bytes are prepared, so that a process that is killed is most likely killed while it writes.
const text = Buffer.alloc(Number(largest), "x");
const end = Buffer.from('"}\n');
const file = openAppendFile(path, { mode: "write" });
writeSync(1, "ready\n");
readSync(0, new Uint8Array(1));
for (let n = 0; n < Number(count); n += 1) {
  const head = Buffer.from(`{"writer":"${writer}","n":${n},"text":"`);
  file.append(Buffer.concat([head, text.subarray((n * 7919) % Number(largest)), end]));
  writeSync(1, `${n}\n`);
}
file.close();
