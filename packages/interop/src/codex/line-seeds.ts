import { kindOfRollout, type RolloutLine } from "./rollout-line.ts";

/**
 * Names the lines of one file, so that ids made of the names are the same each time the file is read: also when it was
 * rewritten by a newer version of the agent, which keeps times and order. A name is the file's id, the time, the kind,
 * and a count of lines that agree in all of these.
 */
export class LineSeeds {
  readonly #segment: string;
  #time = "";
  readonly #counts = new Map<string, number>();

  constructor(segment: string) {
    this.#segment = segment;
  }

  next(line: RolloutLine, lineNumber: number): string {
    const kind = kindOfRollout(line);
    const { timestamp } = line;
    // A clock that was set back could give a name twice.
    if (timestamp === undefined || timestamp < this.#time) return `${this.#segment}#${lineNumber}`;
    if (timestamp !== this.#time) {
      this.#time = timestamp;
      this.#counts.clear();
    }
    const count = this.#counts.get(kind) ?? 0;
    this.#counts.set(kind, count + 1);
    return `${this.#segment}@${timestamp}/${kind}/${count}`;
  }
}
