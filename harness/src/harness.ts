import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { writeSync } from "node:fs";
import type { StoreName } from "./stores.ts";

/** Options of a run. The same seed makes the same choices; the timing of the system is its own. */
export interface HarnessOptions {
  seed: number;
  /** A form that takes seconds. */
  isShort: boolean;
  /** Rounds; each trial has its own default, short and long. */
  count?: number;
  /** The store on trial. */
  store: StoreName;
  /** An empty folder, removed by the caller. */
  folder: string;
  /** The bundled program, which starts itself again as a child. */
  program: string;
}

/** A trial of the durability contract. */
export interface Harness {
  /** Does its rounds and notes what it finds. Throws only for a fault of its own. */
  run(options: HarnessOptions, findings: Findings): Promise<void>;
  /** Program of the processes that it starts, and perhaps kills. */
  child?(parameters: string[]): Promise<void>;
}

/** Runs a trial. */
export async function findingsOf(harness: Harness, options: HarnessOptions): Promise<Findings> {
  const findings = new Findings();
  await harness.run(options, findings);
  return findings;
}

/** Findings of a trial: it has passed without faults. */
export class Findings {
  /** Counts, for the table in the documentation. */
  readonly figures: Record<string, number> = {};
  /** One sentence for each of the first breaches of the contract; all are counted. */
  readonly faults: string[] = [];
  /** One sentence with the reason for each part that could not be run here. */
  readonly skipped: string[] = [];

  /** The same findings for one place: each sentence begins with it. */
  at(place: string): Findings {
    const here: Findings = Object.create(this);
    here.fault = (sentence) => this.fault(`${place}: ${sentence}`);
    return here;
  }

  count(figure: string, by = 1): void {
    this.figures[figure] = (this.figures[figure] ?? 0) + by;
  }

  fault(sentence: string): void {
    this.count("faults");
    if (this.faults.length < 20) this.faults.push(sentence);
  }

  /** Notes a fault unless `holds`. */
  expect(holds: boolean, sentence: string): void {
    if (!holds) this.fault(sentence);
  }
}

/** Random numbers that a seed decides (mulberry32): enough to choose moments and places, and nothing else. */
export class SeededRandom {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** From 0, below 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  }

  /** A whole number from 0, below `end`. */
  below(end: number): number {
    return Math.floor(this.next() * end);
  }

  pick<Item>(items: readonly Item[]): Item {
    return items[this.below(items.length)]!;
  }
}

/** Writes a line of a child to its trial; the line has left the process when this returns. */
export function say(line: string | number | object): void {
  writeSync(1, `${typeof line === "object" ? JSON.stringify(line) : line}\n`);
}

/** A process of the trial's own program, with the lines it says. */
export class Child {
  readonly process: ChildProcess;
  readonly lines: string[] = [];
  /** Resolves when it is over and all its output has been read. */
  readonly over: Promise<unknown>;
  #rest = "";
  #waiting: (() => void)[] = [];

  /** `isMute`: ignores stderr, for a process that is expected to fail. Default: true except for the store `file`. */
  constructor(
    { program, store }: Pick<HarnessOptions, "program" | "store">,
    parameters: readonly (string | number)[],
    { shell, isMute = store !== "file" }: { shell?: string; isMute?: boolean } = {},
  ) {
    const own = [program, "child", ...parameters.map(String)];
    const stdio: ["pipe", "pipe", "ignore" | "inherit"] = ["pipe", "pipe", isMute ? "ignore" : "inherit"];
    this.process = shell
      ? spawn("sh", ["-c", `${shell}; exec "$0" "$@"`, process.execPath, ...own], { stdio })
      : spawn(process.execPath, own, { stdio });
    this.process.stdout!.setEncoding("utf8").on("data", (text: string) => this.#read(text));
    // A child that was killed reads nothing any more.
    this.process.stdin!.on("error", () => undefined);
    this.over = once(this.process, "close");
  }

  get wasKilled(): boolean {
    return this.process.signalCode !== null;
  }

  async kill(): Promise<void> {
    this.process.kill("SIGKILL");
    await this.over;
  }

  /** Sends it a line. */
  tell(line: string): void {
    this.process.stdin!.write(`${line}\n`);
  }

  /** Returns the line at a position as soon as it is there; undefined when the child is over before. */
  async line(at: number): Promise<string | undefined> {
    let isOver = false;
    const over = this.over.then(() => {
      isOver = true;
    });
    while (this.lines.length <= at && !isOver)
      await Promise.race([over, new Promise<void>((resolve) => this.#waiting.push(resolve))]);
    return this.lines[at];
  }

  #read(text: string): void {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop()!;
    this.lines.push(...lines);
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}
