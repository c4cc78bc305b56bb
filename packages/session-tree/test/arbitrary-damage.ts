import fc from "fast-check";
import { HEADER, unsoundLines } from "./arbitrary-log.ts";

/** What can happen to a file. Numbers pick a line and a place in it. */
type Damage =
  | {
      does: "repeat" | "drop" | "swap" | "cut" | "glue" | "lose its newline" | "flip" | "end in CR";
      line: number;
      place: number;
    }
  | { does: "insert"; line: number; text: string };

const damage: fc.Arbitrary<Damage> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      does: fc.constantFrom(
        "repeat",
        "drop",
        "swap",
        "cut",
        "glue",
        "lose its newline",
        "lose its newline",
        "flip",
        "end in CR",
      ),
      line: fc.nat({ max: 40 }),
      place: fc.nat({ max: 999 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      does: fc.constant("insert" as const),
      line: fc.nat({ max: 40 }),
      text: fc.constantFrom(
        "",
        " \t",
        "5",
        "[]",
        "null",
        "{}",
        "\0\0\0",
        '{"type":"custom"}',
        HEADER,
        '{"type":"custom","id":"e3"}',
        "{",
      ),
    }),
  },
);

/** What may stand in the place of a newline that was lost; mostly nothing. */
const BETWEEN: readonly string[] = [" ", "\r", "J", "\0"];

/**
 * @param inOrder only lines that name an entry before anything else are cut, glued and flipped, the latter behind the
 *   names: elsewhere two readers may differ in how much of a damaged line they can still make out
 */
function damaged(
  lines: readonly string[],
  damages: readonly Damage[],
  cutAtEnd: number,
  inOrder: boolean,
): string {
  const pieces = lines.map((line) => Buffer.from(`${line}\n`));
  for (const one of damages) {
    const at = one.line % Math.max(1, pieces.length);
    const piece = pieces[at] ?? Buffer.from("\n");
    if (one.does === "insert") pieces.splice(at, 0, Buffer.from(`${one.text}\n`));
    else {
      const place = Math.floor((piece.length * one.place) / 1_000);
      const isSpared = inOrder && !/^\{"type":"\w*","id":/.test(piece.toString("latin1"));
      if (one.does === "repeat") pieces.splice(Math.max(at + 1, pieces.length - (one.place % 4)), 0, piece);
      if (one.does === "drop") pieces.splice(at, 1);
      if (one.does === "swap") pieces.splice(at, 2, ...pieces.slice(at, at + 2).reverse());
      if (one.does === "cut" && !isSpared)
        pieces[at] = Buffer.concat([piece.subarray(0, place), Buffer.from("\n")]);
      if (one.does === "glue" && !isSpared) pieces[at] = piece.subarray(0, place);
      if (one.does === "lose its newline" && !isSpared)
        pieces[at] = Buffer.from(
          piece.toString("latin1").replace(/\n$/, BETWEEN[one.place % 8] ?? ""),
          "latin1",
        );
      if (one.does === "flip" && !(inOrder && (isSpared || place < piece.indexOf('"timestamp"'))))
        pieces[at] = Buffer.from(
          piece.map((byte, i) => (i === place ? byte ^ (1 << (one.place % 8)) : byte)),
        );
      if (one.does === "end in CR")
        pieces[at] = Buffer.from(piece.toString("latin1").replace(/\n$/, "\r\n"), "latin1");
    }
  }
  const whole = Buffer.concat(pieces).toString("latin1");
  return whole.slice(0, Math.max(0, whole.length - cutAtEnd));
}

/** The bytes of a log that is given as Latin-1. */
export const bytesOf = (log: string): Uint8Array => Uint8Array.from(Buffer.from(log, "latin1"));

/** A log to which anything may have happened: its bytes as Latin-1, which a failure can print. */
export const damagedLog = (options: { inOrder: boolean }): fc.Arbitrary<string> =>
  fc
    .tuple(
      unsoundLines,
      fc.array(damage, { maxLength: 6 }),
      fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, fc.nat({ max: 200 })),
    )
    .map(([lines, damages, cutAtEnd]) => damaged(lines, damages, cutAtEnd, options.inOrder));
