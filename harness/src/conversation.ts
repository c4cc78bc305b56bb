import { copyFileSync, existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Told } from "./children/conversing.ts";
import { Conversed } from "./conversed.ts";
import { DAYS } from "./garden.ts";
import { looksOf } from "./gardener.ts";
import { Findings, type Harness, type HarnessOptions } from "./harness.ts";
import { writeSession } from "./new-session.ts";
import { SeededRandom } from "./seeded-random.ts";

/** Trials at the same time. */
const LANES = 2;

/** A turn of the conversation that nobody was killed in, by its moments in order. */
interface Turn {
  day: number;
  moments: Told["type"][];
}

/**
 * `kill -9` at each moment of an agent's conversation of sixty turns with tools, which is compacted by its size and by
 * an overflow: another process goes on, nothing is lost, nothing is said, answered or run twice, and every request is
 * valid. The killed process begins with the file as the conversation had it before that turn; some go on to its end.
 * Then one conversation has its processes killed over and over.
 */
export const conversation: Harness = async (options) => {
  const findings = new Findings();
  const whole = join(options.folder, "whole.jsonl");
  const { turns, before } = await converseWhole(options, findings, whole);
  const kills = killsIn(turns, options).map((kill) => ({ ...kill, nth: before + kill.moment }));
  const lane = async () => {
    for (let next = kills.pop(); next; next = kills.pop()) await killOnce(options, findings, whole, next);
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  if (options.count === undefined)
    for (const kind of new Set(turns.flatMap(({ moments }) => moments)))
      findings.expect(`killed at ${kind}` in findings.figures, () => `Nobody was killed at ${kind}.`);
  await killOverAndOver(options, findings);
  return findings;
};

/** The conversation as it is when nothing happens to it; keeps a copy of the file before each turn. */
async function converseWhole(options: HarnessOptions, findings: Findings, file: string) {
  writeSession(file);
  const turns: Turn[] = [];
  /** Moments before the first turn, and before that of any process: it finds that there is nothing to go on with. */
  let before = 0;
  await Conversed.in(options, file, async (conversed) => {
    const { told } = await conversed.process(DAYS, 0);
    for (const { type, day } of told) {
      if (day !== undefined) turns.push({ day, moments: [] });
      else if (turns.length === 0) before += 1;
      else turns.at(-1)!.moments.push(type);
    }
    await conversed.goOn(findings, 1, DAYS, "nobody was killed");
  });
  for (const { moments } of turns) {
    findings.count("moments", moments.length);
    if (moments.includes("retry")) findings.count("overflows");
    else if (moments.includes("compact_done")) findings.count("thresholds");
  }
  return { turns, before };
}

/** A moment of a turn to be killed at. */
interface Kill {
  day: number;
  /** From 1. */
  moment: number;
  type: Told["type"];
  /** The day to which it goes on. */
  until: number;
}

/** All moments; in the short form those of the first turn that is compacted, and of the overflow. */
function killsIn(turns: readonly Turn[], { isShort, count = Infinity, seed }: HarnessOptions): Kill[] {
  const compacted = turns.find(({ moments }) => moments.includes("compact_done"))!;
  const overflown = turns.find(({ moments }) => moments.includes("retry"))!;
  const kills = (isShort ? [compacted, overflown] : turns).flatMap(({ day, moments }) =>
    moments.map((type, at) => ({ day, moment: at + 1, type, until: Math.min(day + 1, DAYS) })),
  );
  const random = new SeededRandom(seed);
  while (kills.length > count) kills.splice(random.below(kills.length), 1);
  // One of each turn goes on to the end of the conversation; in the short form one of all.
  const isFirst = ({ moment }: Kill, at: number) => (isShort ? at === 0 : moment === 1 + random.below(20));
  return kills.map((kill, at) => (isFirst(kill, at) ? { ...kill, until: DAYS } : kill));
}

/** Kills a process at one moment of one turn, and goes on. */
async function killOnce(
  options: HarnessOptions,
  findings: Findings,
  whole: string,
  { day, moment, type, until, nth }: Kill & { nth: number },
): Promise<void> {
  const when = `day ${day}, moment ${moment}, ${type}`;
  const file = join(options.folder, `day${day}-${moment}.jsonl`);
  copyFileSync(`${whole}.${day}`, file);
  if (existsSync(`${looksOf(whole)}.${day}`)) copyFileSync(`${looksOf(whole)}.${day}`, looksOf(file));
  await Conversed.in(options, file, async (conversed) => {
    const { told, wasKilled } = await conversed.process(day, nth);
    if (!wasKilled || told.at(-1)?.type !== type)
      return findings.fault(`${when}: killed ${wasKilled} at ${told.at(-1)?.type}.`);
    findings.count("kills");
    findings.count(`killed at ${type}`);
    if (until === DAYS) findings.count("went on to the end");
    await conversed.goOn(findings, day, until, when);
  });
  for (const one of [file, looksOf(file)]) rmSync(one, { force: true });
}

/** One conversation from its first turn to its last, in which no process gets further than some moments. */
async function killOverAndOver(options: HarnessOptions, findings: Findings): Promise<void> {
  const random = new SeededRandom(options.seed);
  const file = writeSession(join(options.folder, "over-and-over.jsonl"));
  await Conversed.in(options, file, async (conversed) => {
    for (let wasKilled = true; wasKilled; ) {
      ({ wasKilled } = await conversed.process(DAYS, 1 + random.below(options.isShort ? 200 : 30)));
      if (wasKilled) findings.count("killed in a row");
    }
    await conversed.goOn(findings, 1, DAYS, "killed over and over");
  });
}
