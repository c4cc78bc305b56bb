/**
 * Finds where lines begin and end in the blocks that a walk reads. {@link NewlineFinder} asks for one newline after the
 * other; a finder of one's own may look at a whole window at once, and keep what it saw of each line for the visitor.
 */
export interface LineFinder {
  /** Memory of the finder's own to read into. A block that does not fit there is read elsewhere. */
  readonly memory?: Uint8Array | undefined;
  /** Told of each window before its lines are asked for: whole lines in `block[start, end)`; only the last may lack its newline. */
  look(block: Uint8Array, start: number, end: number): void;
  /** Where the line that begins at `start` stops: at its newline, or at the window's end. Asked line by line, going forward. */
  stopOf(start: number): number;
  /** Where the line begins whose content stops at `stop`. Asked line by line, going backward. */
  startOf(stop: number): number;
}
