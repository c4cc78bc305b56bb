import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { diagnose } from "@espalier/engine";
import { custom, memoryLog, readSessionLine, type SessionStore, SessionTree } from "@espalier/session-tree";
import { calls } from "./calls.ts";
import { Findings, type Harness, SeededRandom } from "./harness.ts";
import { kill } from "./kill.ts";
import { schedule } from "./schedule.ts";
import { share } from "./share.ts";
import { chainOf, type StoreName, sessionBytes, storeNamed, storeNames } from "./stores.ts";

/** Every byte of the last record cut: what is before it is there, the loss is named, and the next append is clean. */
export const cut: Harness = async ({ store: storeName, folder, isShort }) => {
  const findings = new Findings();
  const store = storeNamed(storeName, folder);
  const entries = chainOf(12);
  const whole = sessionBytes(entries);
  const begin = whole.lastIndexOf(10, whole.length - 2) + 1;
  for (let end = begin; end < whole.length; end += isShort ? 3 : 1) {
    const file = join(folder, `cut${end}.jsonl`);
    writeFileSync(file, whole.subarray(0, end), { mode: 0o600 });
    await judge(
      findings,
      store,
      file,
      entries.map(({ id }) => id),
      end === begin ? "nothing" : end === whole.length - 1 ? "whole" : "cut",
    );
  }
  return findings;
};

/** The trials that must catch each store, which leaves out one part of the protocol. */
const CATCHES: readonly [StoreName, string, Harness][] = [
  ["no-healing", "cut", cut],
  ["short-counts-ignored", "calls", calls],
  ["promises-append-file", "share", share],
  ["ack-before-write", "kill", kill],
  ["rewrite-in-place", "share", share],
  // By search: one round is enough, whatever the machine does.
  ...storeNames
    .filter((store) => store !== "file")
    .map((store): [StoreName, string, Harness] => [store, "schedule", schedule]),
];

/** Rounds of one trial, each with the next seed, before a store counts as not caught. */
const ROUNDS = 25;

/**
 * The trials on trial: each of seven broken stores must be caught, and what is said of it must be a fault of the store.
 * A race shows itself in some runs only: on a machine where nobody happened to write between two pieces of somebody
 * else's line, one round of `share` finds nothing to complain of. So a trial is repeated with the next seed until it has
 * caught its store; the figure says how many rounds that took.
 */
export const broken: Harness = async (options) => {
  const findings = new Findings();
  for (const [store, name, harness] of CATCHES) {
    let isCaught = false;
    for (let round = 0; round < ROUNDS && !isCaught; round += 1) {
      const folder = join(options.folder, `${store}-${name}-${round}`);
      mkdirSync(folder);
      const { faults } = await harness({
        ...options,
        seed: options.seed + round,
        store,
        folder,
        isShort: true,
      });
      findings.count(`${store} caught by ${name}, rounds`);
      isCaught = faults.length > 0;
    }
    findings.expect(isCaught, () => `The store "${store}" was not caught by the trial "${name}".`);
  }
  return findings;
};

async function judge(
  findings: Findings,
  store: SessionStore,
  file: string,
  ids: readonly string[],
  tail: "nothing" | "cut" | "whole",
): Promise<void> {
  findings.count("files");
  const at = file.replace(/.*\//, "");
  const session = await SessionTree.open(await store.open({ file }, "write"));
  const { issues } = await diagnose(session.log);
  const wanted = tail === "nothing" ? [] : tail === "cut" ? ["torn-tail"] : ["unterminated-tail"];
  findings.expect(
    JSON.stringify(issues.map(({ kind }) => kind)) === JSON.stringify(wanted),
    () => `${at}: the issues are ${issues.map(({ kind }) => kind).join(", ") || "none"}.`,
  );
  const [appended] = await session.append(custom.of({ customType: "trial" }));
  await session.close();
  const log = await store.open({ file }, "read");
  const again = await SessionTree.open(log);
  const kept = tail === "whole" ? ids : ids.slice(0, -1);
  for (const id of kept) findings.expect(again.tree.has(id), () => `${at}: the entry ${id} is lost.`);
  findings.expect(again.leafId === appended!.id, () => `${at}: the appended entry is not the leaf.`);
  const view = await log.load();
  const line = Buffer.from(view.read(0, view.size)).toString().trimEnd().split("\n").at(-1)!;
  const read = readSessionLine(Buffer.from(line));
  const isClean = read.is === "entry" && read.from === 0 && read.entry.id === appended!.id;
  findings.expect(isClean, () => `${at}: the appended entry does not stand on a line of its own.`);
  await log.close();
}

/** Every single byte of a 200-line file flipped: what was not touched is there, damage is named, the next append is clean. */
export const flip: Harness = async ({ seed, isShort }) => {
  const findings = new Findings();
  const random = new SeededRandom(seed);
  const entries = chainOf(199);
  const whole = sessionBytes(entries);
  const ends: number[] = [];
  for (let at = whole.indexOf(10); at >= 0; at = whole.indexOf(10, at + 1)) ends.push(at);
  for (let at = isShort ? seed % 211 : 0; at < whole.length; at += isShort ? 211 : 1) {
    const bytes = Buffer.from(whole);
    bytes[at] = bytes[at]! ^ (1 << random.below(8));
    findings.count("files");
    // A flipped newline touches the line it ended and the next one; a new one may cut a line in two.
    const line = ends.findIndex((end) => at <= end);
    const touched = new Set(at === ends[line] ? [line, line + 1] : [line]);
    await judgeFlip(
      findings,
      bytes,
      entries.map(({ id }) => id),
      touched,
      at,
    );
  }
  return findings;
};

async function judgeFlip(
  findings: Findings,
  bytes: Buffer,
  ids: readonly string[],
  touched: ReadonlySet<number>,
  at: number,
): Promise<void> {
  const log = memoryLog(bytes);
  const session = await SessionTree.open(log);
  const { tree } = session;
  for (const [index, id] of ids.entries())
    if (!touched.has(index + 1)) findings.expect(tree.has(id), () => `Byte ${at}: the entry ${id} is lost.`);
  const { issues } = await diagnose(log);
  if (issues.length > 0) findings.count("named");
  const lines = bytes
    .toString("latin1")
    .split("\n")
    .filter((line) => line !== "");
  const bad = lines.filter((line) => readSessionLine(Buffer.from(line, "latin1")).is === "corrupt").length;
  if (bad > 0) {
    findings.count("unreadable");
    findings.expect(issues.length > 0, () => `Byte ${at}: a line is unreadable, and nothing says so.`);
  }
  if (!session.header) {
    findings.count("without a header");
    return;
  }
  if (session.header.version > 3) return;
  const [appended] = await session.append(custom.of({ customType: "trial" }));
  const view = await log.load();
  const again = await SessionTree.open(memoryLog(view.read(0, view.size)));
  findings.expect(again.leafId === appended!.id, () => `Byte ${at}: the appended entry is not the leaf.`);
}
