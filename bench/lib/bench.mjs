// The bench as lines use it: files to measure on, contenders, and the order in which they work.
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startContender, whyMissing } from "./contender.mjs";
import { SessionLines, sessionFile, VERSION } from "./session-lines.mjs";

/** @typedef {import("./contender.mjs").ContenderName} ContenderName */

export class Bench {
  #running = new Map();
  #missing = new Map();
  #scratches = 0;

  constructor({ folder, sizes, isSmoke }) {
    this.folder = folder;
    /** Entries of the sessions to measure: 1,000 to 1,000,000. */
    this.sizes = sizes;
    /** Tiny sizes, to see that everything runs; the figures mean nothing. */
    this.isSmoke = isSmoke;
  }

  /** Of this run alone, so that two runs at once keep apart. */
  get #scratchFolder() {
    return join(this.folder, `scratch-${process.pid}`);
  }

  /** Reasons of contenders that took no part, by name. */
  get missing() {
    return Object.fromEntries(this.#missing);
  }

  /** A generated session, as `SessionLines` makes it; kept for the next run. In a smoke run at most 300 entries. */
  session(recipe) {
    const entries = this.isSmoke ? Math.min(recipe.entries, 300) : recipe.entries;
    return sessionFile(join(this.folder, "sessions"), { ...recipe, entries });
  }

  /** A folder of many generated sessions, kept for the next run; returns its path. */
  sessions(recipe) {
    return sessionFolder(join(this.folder, "folders"), recipe);
  }

  /** An empty folder for the files of a line; removed after the line. */
  scratch() {
    const path = join(this.#scratchFolder, `${++this.#scratches}`);
    rmSync(path, { recursive: true, force: true });
    mkdirSync(path, { recursive: true });
    return path;
  }

  /** Many or one, in a smoke run always few. */
  count(full, smoke) {
    return this.isSmoke ? smoke : full;
  }

  /**
   * Has contenders do a task in turns, so that all of them see the same machine, and takes the median of each number
   * that they answer with.
   *
   * @param {Partial<Record<ContenderName, [task: string, args?: object, only?: { rounds?: number, nodeOptions?: string[] }]>>} tasks
   * @param {{ rounds?: number, warmUp?: number, fresh?: boolean }} [options] `warmUp`: rounds that do not count
   *   (default 1); `fresh`: a new process each round, where memory or a first time is measured
   * @returns {Promise<Partial<Record<ContenderName, Record<string, number>>>>} without those that cannot take part
   */
  async alternate(tasks, { rounds = 5, warmUp = 1, fresh = false } = {}) {
    const names = /** @type {ContenderName[]} */ (Object.keys(tasks)).filter((name) => this.#takesPart(name));
    const answers = Object.fromEntries(names.map((name) => [name, []]));
    const total = this.isSmoke ? 1 : rounds + (fresh ? 0 : warmUp);
    for (let round = 0; round < total; round++) {
      for (const name of names) {
        const [task, args = {}, only = {}] = tasks[name];
        if (round >= (only.rounds ?? total)) continue;
        const answer = await this.#ask(name, task, args, { fresh, nodeOptions: only.nodeOptions });
        const isWarmUp = !fresh && round < warmUp && total > 1 && !only.rounds;
        if (answer !== undefined && !isWarmUp) answers[name].push(answer);
      }
    }
    const taken = Object.entries(answers).filter(([, each]) => each.length > 0);
    return Object.fromEntries(taken.map(([name, each]) => [name, medians(each)]));
  }

  /**
   * Measures a row: one number of each contender's answer, in milliseconds unless `of` takes another.
   * @param {object} given
   * @param {string} given.work
   * @param {string} [given.unit]
   * @param {Parameters<Bench["alternate"]>[0]} given.tasks
   * @param {(answer: Record<string, number>) => number} [given.of]
   * @param {(figures: Record<string, number>, answers: object) => import("./goal.mjs").Goal[]} [given.goals]
   * @param {(answers: object) => Record<string, number>} [given.facts]
   * @returns {Promise<import("./goal.mjs").Row>}
   */
  async row({ work, unit = "ms", tasks, of = ({ ms }) => ms, goals = () => [], facts, ...options }) {
    const answers = await this.alternate(tasks, options);
    const shown = ["espalier", "pi", "limit"].filter((name) => name in tasks);
    const figures = Object.fromEntries(shown.map((name) => [name, answers[name] && of(answers[name])]));
    const row = { work, unit, figures, goals: goals(figures, answers) };
    return facts ? { ...row, facts: facts(answers) } : row;
  }

  /** Has one contender do a task once, in a process of its own; undefined when it cannot take part. */
  async once(name, task, args = {}, { nodeOptions, ownNode } = {}) {
    if (!this.#takesPart(name)) return undefined;
    return this.#ask(name, task, args, { fresh: true, nodeOptions, ownNode });
  }

  /** Ends the processes and removes their files. Called after each line; in a smoke run processes live on. */
  endLine() {
    if (!this.isSmoke) this.end();
    rmSync(this.#scratchFolder, { recursive: true, force: true });
  }

  /** Ends every process. */
  end() {
    for (const contender of this.#running.values()) contender.stop();
    this.#running.clear();
  }

  #takesPart(name) {
    const reason = whyMissing(name);
    if (reason) this.#missing.set(name, reason);
    return reason === undefined;
  }

  async #ask(name, task, args, { fresh, nodeOptions, ownNode }) {
    if (fresh && !this.isSmoke) {
      const contender = await startContender(name, { nodeOptions, ownNode });
      try {
        return await contender.run(task, args);
      } finally {
        contender.stop();
      }
    }
    const key = `${name}${ownNode ? " in this Node" : ""}`;
    if (!this.#running.has(key)) this.#running.set(key, await startContender(name, { nodeOptions, ownNode }));
    return this.#running.get(key).run(task, args);
  }
}

function medians(answers) {
  const [first = {}] = answers;
  const keys = Object.keys(first).filter((key) => typeof first[key] === "number");
  return Object.fromEntries(keys.map((key) => [key, median(answers.map((answer) => Number(answer[key])))]));
}

/** Makes so many sessions of so many entries, each its own; returns the folder. */
function sessionFolder(parent, { sessions, entries }) {
  const folder = join(parent, `v${VERSION}_${sessions}-sessions-of-${entries}`);
  if (existsSync(folder)) return folder;
  rmSync(`${folder}.${process.pid}.part`, { recursive: true, force: true });
  mkdirSync(`${folder}.${process.pid}.part`, { recursive: true });
  // One text for all but their headers: listing costs the same.
  const [, ...lines] = new SessionLines({ entries, compactions: entries > 100 }).lines();
  const body = lines.join("\n");
  for (let at = 0; at < sessions; at++) {
    const timestamp = new Date(Date.UTC(2026, 0, 1) + at * 60_000).toISOString();
    const header = { type: "session", version: 3, id: `bench${at}`, timestamp, cwd: "/home/ada/tidepool" };
    const name = `${timestamp.replace(/[:.]/g, "-")}_bench${at}.jsonl`;
    writeFileSync(join(`${folder}.${process.pid}.part`, name), `${JSON.stringify(header)}\n${body}\n`);
  }
  renameSync(`${folder}.${process.pid}.part`, folder);
  return folder;
}

/** @returns {Promise<{ ms: number, result: any }>} */
export async function timed(work) {
  const start = performance.now();
  const result = await work();
  return { ms: performance.now() - start, result };
}

/** The median time of many runs, for work too short to be timed alone. */
export async function medianTime(count, work) {
  const times = [];
  for (let at = 0; at < count; at++) {
    const start = performance.now();
    const result = work(at);
    // An await where there is no promise would cost as much as what is measured.
    if (result instanceof Promise) await result;
    times.push(performance.now() - start);
  }
  return median(times);
}

/** Times of acts that so many callers do at once, each one after the other. */
export async function timesAtOnce(callers, acts, act) {
  const times = [];
  const { ms } = await timed(() =>
    Promise.all(
      Array.from({ length: callers }, async (_, caller) => {
        for (let at = 0; at < acts; at++) times.push((await timed(() => act(caller, at))).ms);
      }),
    ),
  );
  return { ms, times };
}

/** The time that so many percent are within. */
export function percentile(times, percent) {
  const sorted = [...times].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * percent) / 100))];
}

/** Peak memory of this process in megabytes. On Linux from its status: `maxRSS` begins with the memory of its parent. */
export function peakMegabytes() {
  if (process.platform !== "linux") return process.resourceUsage().maxRSS / 1024;
  const [, kilobytes] = /^VmHWM:\s*(\d+) kB$/m.exec(readFileSync("/proc/self/status", "utf8"));
  return Number(kilobytes) / 1024;
}

/** The middle of some numbers; of an even count, halfway between the two in the middle. */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
