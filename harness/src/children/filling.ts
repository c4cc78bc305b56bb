import { writeSync } from "node:fs";
import { custom, type Entry, SessionTree, SessionTreeError } from "@espalier/session-tree";
import { storeNamed } from "../store-named.ts";

/** `filling <home> <file> <count> <size>`: appends until nothing fits, says each id or the code of the failure. */
export async function fillUp([home, file, count, size]: string[]): Promise<void> {
  const session = await SessionTree.open(await storeNamed("file", home!).open({ file: file! }, "write"));
  for (let n = 0; n < Number(count); n += 1) {
    try {
      const entry = custom.of({ customType: "trial", data: "x".repeat(Number(size)) });
      const [written] = (await session.append(entry)) as [Entry];
      writeSync(1, `${JSON.stringify({ id: written.id })}\n`);
    } catch (error) {
      if (!(error instanceof SessionTreeError)) throw error;
      writeSync(1, `${JSON.stringify({ code: error.code })}\n`);
    }
  }
  await session.close();
}
