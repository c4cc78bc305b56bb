import type { RolloutLine } from "./rollout-line.ts";

/** A line in the history of a thread, wherever it stands. */
export interface LogicalLine extends RolloutLine {
  /** Names the line, the same in every thread that has it. */
  seed: string;
  /** In the file that is read, from 1; null for a line of another one. */
  lineNumber: number | null;
  /** True when another thread wrote it first. */
  isInherited: boolean;
}
