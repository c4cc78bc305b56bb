import { writeSync } from "node:fs";
import { custom, SessionTree } from "@espalier/session-tree";
import { SeededRandom } from "../seeded-random.ts";
import { type StoreName, storeNamed } from "../store-named.ts";

/** `sharing <store> <home> <file> <seed> <from> <count> <smallest> <largest>`: appends entries, and says the number of each. */
export async function share([
  storeName,
  home,
  file,
  seed,
  from,
  count,
  smallest,
  largest,
]: string[]): Promise<void> {
  const random = new SeededRandom(Number(seed));
  const store = storeNamed(storeName as StoreName, home!);
  const session = await SessionTree.open(await store.open({ file: file! }, "write"));
  writeSync(1, "ready\n");
  for (let n = Number(from); n < Number(count); n += 1) {
    const size = Math.round(Number(smallest) * (Number(largest) / Number(smallest)) ** random.next());
    const id = `w${seed}x${n}`;
    await session.append(
      { ...custom.of({ customType: "trial", data: "x".repeat(size) }), id, parentId: session.leafId },
      { durability: "flush" },
    );
    writeSync(1, `${n}\n`);
  }
  await session.close();
}
