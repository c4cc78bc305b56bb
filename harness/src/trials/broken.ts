import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { diagnose } from "@espalier/engine";
import { memoryLog, readSessionLine, SessionTree } from "@espalier/session-tree";
import { findingsOf, type Harness, SeededRandom } from "../harness.ts";
import { judgeNextAppend } from "../judge.ts";
import { chainOf, note, openTree, type StoreName, sessionBytes, storeNamed, storeNames } from "../stores.ts";
import { calls } from "./calls.ts";
import { kill } from "./kill.ts";
import { schedule } from "./schedule.ts";
import { share } from "./share.ts";

/** Every byte of the last record cut: everything before it is there, the loss is named, and the next append is clean. */
export const cut: Harness = {
  async run({ store: storeName, folder, isShort }, findings) {
    const store = storeNamed(storeName, folder);
    const entries = chainOf(12);
    const whole = sessionBytes(entries);
    const begin = whole.lastIndexOf(10, whole.length - 2) + 1;
    for (let end = begin; end < whole.length; end += isShort ? 3 : 1) {
      findings.count("files");
      const name = `cut${end}.jsonl`;
      const here = findings.at(name);
      const file = join(folder, name);
      writeFileSync(file, whole.subarray(0, end), { mode: 0o600 });
      const isWhole = end === whole.length - 1;
      const session = await openTree(store, file, "write");
      const issues = (await diagnose(session.log)).issues.map(({ kind }) => kind).join(", ");
      const wanted = end === begin ? "" : isWhole ? "unterminated-tail" : "torn-tail";
      here.expect(issues === wanted, `the issues are ${issues || "none"}.`);
      const again = await judgeNextAppend(here, session, store, file);
      for (const { id } of isWhole ? entries : entries.slice(0, -1))
        here.expect(again.tree.has(id), `the entry ${id} is lost.`);
      const view = await again.log.load();
      const line = Buffer.from(view.read(0, view.size)).toString().trimEnd().split("\n").at(-1)!;
      const read = readSessionLine(Buffer.from(line));
      const isClean = read.is === "entry" && read.from === 0 && read.entry.id === again.leafId;
      here.expect(isClean, "the appended entry has no line of its own.");
      await again.close();
    }
  },
};

/** Every single byte of a 200-line file flipped: untouched entries are there, damage is named, the next append is clean. */
export const flip: Harness = {
  async run({ seed, isShort }, findings) {
    const random = new SeededRandom(seed);
    const entries = chainOf(199);
    const whole = sessionBytes(entries);
    const ends: number[] = [];
    for (let at = whole.indexOf(10); at >= 0; at = whole.indexOf(10, at + 1)) ends.push(at);
    for (let at = isShort ? seed % 211 : 0; at < whole.length; at += isShort ? 211 : 1) {
      findings.count("files");
      const here = findings.at(`Byte ${at}`);
      const bytes = Buffer.from(whole);
      bytes[at] = bytes[at]! ^ (1 << random.below(8));
      // A flipped newline touches the line it ended and the next one; a new one may cut a line in two.
      const line = ends.findIndex((end) => at <= end);
      const isTouched = (index: number) => index === line || (at === ends[line] && index === line + 1);
      const log = memoryLog(bytes);
      const session = await SessionTree.open(log);
      for (const [index, { id }] of entries.entries())
        here.expect(isTouched(index + 1) || session.tree.has(id), `the entry ${id} is lost.`);
      const { issues } = await diagnose(log);
      if (issues.length > 0) findings.count("named");
      const lines = bytes.toString("latin1").split("\n");
      if (lines.some((each) => readSessionLine(Buffer.from(each, "latin1")).is === "corrupt")) {
        findings.count("unreadable");
        here.expect(issues.length > 0, "a line is unreadable, and no issue says so.");
      }
      if (!session.header) findings.count("without a header");
      else if (session.header.version <= 3) {
        const [appended] = await session.append(note());
        const view = await log.load();
        const again = await SessionTree.open(memoryLog(view.read(0, view.size)));
        here.expect(again.leafId === appended!.id, "the appended entry is not the leaf.");
      }
    }
  },
};

/** The trials that must detect each store, which omits one part of the protocol. */
const DETECTS: readonly [StoreName, string, Harness][] = [
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

/** Rounds of one trial, each with the next seed, before a store counts as not detected. */
const ROUNDS = 25;

/**
 * The trials on trial: each of seven broken stores must be detected by its fault. A race occurs only in some runs: one
 * round of `share` finds nothing on a machine where no process happened to write between two pieces of another's line. So a
 * trial is repeated with the next seed until it has detected its store; the figure is the number of rounds.
 */
export const broken: Harness = {
  async run(options, findings) {
    for (const [store, name, harness] of DETECTS) {
      let isDetected = false;
      for (let round = 0; round < ROUNDS && !isDetected; round += 1) {
        const folder = join(options.folder, `${store}-${name}-${round}`);
        mkdirSync(folder);
        const seed = options.seed + round;
        const { faults } = await findingsOf(harness, { ...options, seed, store, folder, isShort: true });
        findings.count(`${store} caught by ${name}, rounds`);
        isDetected = faults.length > 0;
      }
      findings.expect(isDetected, `The store "${store}" was not caught by the trial "${name}".`);
    }
  },
};
