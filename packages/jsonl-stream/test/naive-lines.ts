/** A line as a reader would find it who has the whole file in memory and all the time in the world. */
export interface NaiveLine {
  offset: number;
  length: number;
  content: string;
  lineNumber: number;
  terminated: boolean;
}

/** Bytes as text, one character a byte, so that results can be compared and printed. */
export const latin1 = (bytes: Uint8Array): string => Buffer.from(bytes).toString("latin1");

/** Splits at newlines; lines are cut to `longest`. `base` is the offset of the first byte. */
export function naiveLines(bytes: Uint8Array, longest = Number.POSITIVE_INFINITY, base = 0): NaiveLine[] {
  const pieces = latin1(bytes).split("\n");
  const unterminated = pieces[pieces.length - 1] !== "";
  if (!unterminated) pieces.pop();
  let offset = base;
  return pieces.map((piece, index) => {
    const stored = piece.slice(0, longest);
    const unmarked = offset === 0 ? stored.replace(/^\xef\xbb\xbf/, "") : stored;
    const line = {
      offset,
      length: stored.length,
      content: unmarked.replace(/\r$/, ""),
      lineNumber: index + 1,
      terminated: index < pieces.length - 1 || !unterminated,
    };
    offset += piece.length + 1;
    return line;
  });
}
