import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { scanLines } from "@espalier/jsonl-stream";
import { openView } from "@espalier/jsonl-stream/node";
import { readLineParts } from "@espalier/session-tree";
import { Child, type Findings, type Harness, type HarnessOptions, SeededRandom, say } from "../harness.ts";
import { note, openTree, type StoreName, storeNamed, writeSession } from "../stores.ts";

interface Form {
  name: string;
  processes: number;
  entries: number;
  /** Bytes of the smallest and the largest entry; in between, each order of magnitude is as likely as another. */
  smallest: number;
  largest: number;
}

const LONG: readonly Form[] = [
  { name: "1 KB", processes: 8, entries: 10_000, smallest: 1_000, largest: 1_000 },
  { name: "1 KB to 8 MB", processes: 8, entries: 200, smallest: 1_000, largest: 8_000_000 },
];
const SHORT: readonly Form[] = [
  { name: "1 KB", processes: 3, entries: 150, smallest: 1_000, largest: 1_000 },
  { name: "600 KB to 3 MB", processes: 3, entries: 12, smallest: 600_000, largest: 3_000_000 },
];

/** Several processes append to one session, and one of them is killed every second and begins again. */
export const share: Harness = {
  async run(options, findings) {
    for (const form of options.isShort ? SHORT : LONG) {
      await shareOne(options, form, findings);
      // A broken store is detected.
      if (options.store !== "file" && findings.faults.length > 0) return;
    }
  },

  /** `<store> <home> <file> <seed> <from> <count> <smallest> <largest>`: appends entries, and says the number of each. */
  async child([store, home, file, ...numbers]) {
    const [seed = 0, from = 0, count = 0, smallest = 0, largest = 0] = numbers.map(Number);
    const random = new SeededRandom(seed);
    const session = await openTree(storeNamed(store as StoreName, home!), file!, "write");
    say("ready");
    for (let n = from; n < count; n += 1) {
      const size = Math.round(smallest * (largest / smallest) ** random.next());
      const entry = { ...note("x".repeat(size)), id: `w${seed}x${n}`, parentId: session.leafId };
      await session.append(entry, { durability: "flush" });
      say(n);
    }
    await session.close();
  },
};

async function shareOne(options: HarnessOptions, form: Form, findings: Findings): Promise<void> {
  const random = new SeededRandom(options.seed);
  const file = writeSession(join(options.folder, `shared-${form.largest}.jsonl`));
  const acked = new Set<string>();
  const running = new Map<number, Child>();
  let kills = 0;
  const writer = async (number: number) => {
    for (let from = 0; from < form.entries; ) {
      const { entries, smallest, largest } = form;
      const { store, folder } = options;
      const given = [file, number, from, entries, smallest, largest];
      const child = new Child(options, ["share", store, folder, ...given]);
      running.set(number, child);
      await child.over;
      running.delete(number);
      const numbers = child.lines.slice(1).map(Number);
      for (const n of numbers) acked.add(`w${number}x${n}`);
      const next = numbers.length > 0 ? numbers.at(-1)! + 1 : from;
      if (!child.wasKilled && next < entries) {
        findings.fault(`A writer of ${form.name} ended at ${next}.`);
        return;
      }
      // The entry in progress may be in the file: it is left, and the next number is used.
      from = child.wasKilled ? next + 1 : next;
    }
  };
  const writers = Array.from({ length: form.processes }, (_, number) => writer(number));
  let isDone = false;
  const killing = (async () => {
    while (!isDone) {
      await setTimeout(options.isShort ? 400 : 1_000);
      const victims = [...running.values()].filter(({ lines }) => lines.length > 1);
      if (isDone || victims.length === 0) continue;
      random.pick(victims).process.kill("SIGKILL");
      kills += 1;
    }
  })();
  await Promise.all(writers);
  isDone = true;
  await killing;
  findings.count(`acked, ${form.name}`, acked.size);
  findings.count(`kills, ${form.name}`, kills);
  judge(findings, form.name, file, acked, kills);
}

function judge(findings: Findings, name: string, file: string, acked: ReadonlySet<string>, kills: number) {
  const here = findings.at(name);
  const found = new Map<string, number>();
  let torn = 0;
  const view = openView(file);
  for (const { bytes } of scanLines(view)) {
    for (const part of readLineParts(bytes)) {
      if (part.is === "corrupt") torn += 1;
      if (part.is !== "entry") continue;
      const { id } = part.entry;
      if (part.from > 0) here.expect(!acked.has(id), "an acknowledged entry is glued.");
      found.set(id, (found.get(id) ?? 0) + 1);
    }
  }
  findings.count(`bytes, ${name}`, view.size);
  view.close();
  const lost = [...acked].filter((id) => !found.has(id)).length;
  findings.count(`lost, ${name}`, lost);
  // Each killed writer may leave one line that was cut, of an entry that was not acknowledged.
  findings.count(`cut by a kill, ${name}`, torn);
  here.expect(lost === 0, `${lost} acknowledged entries are lost.`);
  here.expect(torn <= kills, `${torn} lines are torn, of ${kills} kills.`);
  for (const [id, times] of found) here.expect(times === 1, `${id} is there ${times} times.`);
}
