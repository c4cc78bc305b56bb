/**
 * Processes in difficult conditions, for `processes.test.ts`:
 * `upgrading <file> <id> [stop]` appends one entry under the leaf. It says `open` when it has opened the file, then `ok` or
 * the code of the failure. With `stop` it waits before it renames a file over the session, says `stopped`, and goes on
 * when `<file>.go` is there.
 * `pressed <home> <file>` takes and gives back the lease with 0 to 25 descriptors left, again and again, and says the
 * codes of failures, `raw` for an error without one.
 */

import { closeSync, existsSync, openSync, writeSync } from "node:fs";
import { EspalierError } from "@espalier/jsonl-stream";
import { nodeFileCalls } from "@espalier/jsonl-stream/node";
import { custom, SessionTree } from "@espalier/session-tree";
import { FileLog, fileStore } from "@espalier/session-tree/node";

const [act, ...args] = process.argv.slice(2);
const [first, second, third] = args;
if (act === "upgrading") await upgrade(first!, second!, third);
else await press(first!, second!);

async function upgrade(file: string, id: string, stop?: string): Promise<void> {
  const calls = {
    ...nodeFileCalls,
    renameSync(from: string, to: string) {
      if (stop && to === file) {
        writeSync(1, "stopped\n");
        while (!existsSync(`${file}.go`)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
      }
      nodeFileCalls.renameSync(from, to);
    },
  };
  for (;;) {
    const session = await SessionTree.open(FileLog.open(file, "write", calls));
    writeSync(1, "open\n");
    try {
      await session.append({ ...custom.of({ customType: "trial", data: id }), id, parentId: session.leafId });
      writeSync(1, "ok\n");
      return;
    } catch (error) {
      if (!(error instanceof EspalierError)) throw error;
      writeSync(1, `${error.code}\n`);
      if (error.code !== "changed") return;
    } finally {
      await session.close();
    }
  }
}

async function press(home: string, file: string): Promise<void> {
  const store = fileStore({ home });
  for (let round = 0; round < 208; round += 1) {
    const taken: number[] = [];
    try {
      for (;;) taken.push(openSync("/dev/null", "r"));
    } catch {
      // No descriptor is left.
    }
    for (let left = round % 26; left > 0; left -= 1) closeSync(taken.pop()!);
    const lease = await told(() => store.lease({ file }));
    // Now nothing is left at all.
    try {
      for (;;) taken.push(openSync("/dev/null", "r"));
    } catch {
      // As above.
    }
    if (lease) await told(() => lease.release());
    for (const fd of taken) closeSync(fd);
    await told(async () => (await store.lease({ file })).release());
    if (lease) writeSync(1, "held\n");
  }
  writeSync(1, "over\n");
}

/** Says the code of a failure. */
async function told<Result>(run: () => Promise<Result>): Promise<Result | undefined> {
  try {
    return await run();
  } catch (error) {
    writeSync(1, `${error instanceof EspalierError ? error.code : `raw ${(error as Error).message}`}\n`);
    return undefined;
  }
}
