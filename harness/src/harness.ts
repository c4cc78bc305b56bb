import type { StoreName } from "./stores.ts";

/** How a trial is run. The same seed makes the same choices; what the system does in between is its own. */
export interface HarnessOptions {
  seed: number;
  /** A form that takes seconds. */
  isShort: boolean;
  /** How many rounds; each trial has its own default, short and long. */
  count?: number;
  /** The store on trial. */
  store: StoreName;
  /** An empty folder, removed by the caller. */
  folder: string;
  /** The bundled program, which starts itself again as a child. */
  program: string;
}

/** What a trial found. */
interface HarnessResult {
  /** Counts, for the table in the documentation. */
  figures: Record<string, number>;
  /** One sentence each for what broke the contract; a trial with none has passed. */
  faults: string[];
  /** One sentence each for what could not be run here, and why. */
  skipped: string[];
}

/** A trial: does its rounds and says what it found. It throws only for what is wrong with itself. */
export type Harness = (options: HarnessOptions) => Promise<HarnessResult>;

/** Collects what a trial finds; the first faults are told in words, all are counted. */
export class Findings implements HarnessResult {
  readonly figures: Record<string, number> = {};
  readonly faults: string[] = [];
  readonly skipped: string[] = [];

  count(figure: string, by = 1): void {
    this.figures[figure] = (this.figures[figure] ?? 0) + by;
  }

  fault(sentence: string): void {
    this.count("faults");
    if (this.faults.length < 20) this.faults.push(sentence);
  }

  /** Notes a fault unless `holds`. */
  expect(holds: boolean, sentence: () => string): void {
    if (!holds) this.fault(sentence());
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
