import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { scanLines } from "@espalier/jsonl-stream";
import { openView } from "@espalier/jsonl-stream/node";
import { readLineParts } from "@espalier/session-tree";
import { Child } from "./children.ts";
import { Findings, type Harness, type HarnessOptions, SeededRandom } from "./harness.ts";
import { writeSession } from "./stores.ts";

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
export const share: Harness = async (options) => {
  const findings = new Findings();
  for (const form of options.isShort ? SHORT : LONG) await shareOne(options, form, findings);
  return findings;
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
      const args = [options.store, options.folder, file, number, from, entries, smallest, largest];
      const isMute = options.store !== "file";
      const child = new Child(options.program, ["sharing", ...args.map(String)], { isMute });
      running.set(number, child);
      await child.over;
      running.delete(number);
      const said = child.lines.slice(1).map(Number);
      for (const n of said) acked.add(`w${number}x${n}`);
      // What was not acknowledged may be there: it is left, and the next number is taken.
      const next = said.length > 0 ? said.at(-1)! + 1 : from;
      if (child.process.signalCode === null && next < form.entries) {
        findings.fault(`A writer of ${form.name} gave up at ${next}.`);
        return;
      }
      from = child.process.signalCode === null ? next : next + 1;
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
  judge(findings, form, file, acked, kills);
}

function judge(
  findings: Findings,
  form: Form,
  file: string,
  acked: ReadonlySet<string>,
  kills: number,
): void {
  const found = new Map<string, number>();
  let torn = 0;
  const view = openView(file);
  for (const { bytes } of scanLines(view)) {
    for (const part of readLineParts(bytes)) {
      if (part.is === "corrupt") torn += 1;
      if (part.is !== "entry") continue;
      const { id } = part.entry;
      if (part.from > 0)
        findings.expect(!acked.has(id), () => `${form.name}: an acknowledged entry is glued.`);
      found.set(id, (found.get(id) ?? 0) + 1);
    }
  }
  findings.count(`bytes, ${form.name}`, view.size);
  view.close();
  let lost = 0;
  for (const id of acked) if (!found.has(id)) lost += 1;
  findings.count(`lost, ${form.name}`, lost);
  // Each killed writer may leave one line that was cut, of an entry that nobody was told is there.
  findings.count(`cut by a kill, ${form.name}`, torn);
  findings.expect(lost === 0, () => `${form.name}: ${lost} acknowledged entries are lost.`);
  findings.expect(torn <= kills, () => `${form.name}: ${torn} lines are torn, of ${kills} kills.`);
  for (const [id, times] of found)
    findings.expect(times === 1, () => `${form.name}: ${id} is there ${times} times.`);
}
