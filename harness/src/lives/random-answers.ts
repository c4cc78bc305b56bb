import type { SeededRandom } from "../seeded-random.ts";
import type { Answer, Thought } from "./wire.ts";

/** A key as a model may repeat one in its thoughts; in pieces, so that nobody takes it for a real one. */
export const KEY = ["sk", "ant", "api03", "a1B2".repeat(24)].join("-");

const WORDS =
  "pears apples beans worms rain soil seeds roots leaves the a of and grow ripe dig water ä 数据 🌱".split(
    " ",
  );

/** So many words. */
export const prose = (random: SeededRandom, count: number): string =>
  Array.from({ length: count }, () => random.pick(WORDS)).join(" ");

/** A PNG of this size, as far as anybody looks who does not draw it. */
function png(width: number, height: number, bytes = 33): string {
  const data = Buffer.alloc(bytes);
  Buffer.from("89504e470d0a1a0a0000000d49484452", "hex").copy(data);
  data.writeUInt32BE(width, 16);
  data.writeUInt32BE(height, 20);
  return data.toString("base64");
}

/** A picture: mostly one that providers take. */
export function picture(random: SeededRandom): { type: "image"; data: string; mimeType: string } {
  const kind = random.below(40);
  const of = (data: string, mimeType = "image/png") => ({ type: "image" as const, data, mimeType });
  if (kind === 0) return of(png(9_000, 20));
  if (kind === 1) return of("this is no base64!");
  if (kind === 2) return of("SUkqAA==", "image/tiff");
  if (kind === 3) return of(png(40, 40).replace(/=+$/, ""));
  if (kind === 4) return of(png(40, 40, 34), "image/jpeg");
  if (kind === 5) return of(png(40, 40, 4_000_000));
  return of(kind < 16 ? png(2_400, 1_000) : png(100, 100));
}

/** What a model says: thoughts, words, calls, in every mixture. */
export function randomAnswer(random: SeededRandom, n: number, tools: readonly string[]): Answer {
  const kind = random.below(10);
  const calls =
    kind < 5
      ? Array.from({ length: 1 + (random.below(3) === 0 ? random.below(3) : 0) }, (_, at) => ({
          // Longer than some providers take.
          id: `call_${n}_${at}${random.below(10) === 0 ? "x".repeat(60) : ""}`,
          name: random.pick(tools),
          input: { what: prose(random, 3) },
        }))
      : [];
  const thoughts = Array.from({ length: random.below(4) }, (_, at): Thought => {
    const isSealed = random.below(5) === 0;
    const key = random.below(8) === 0 ? ` with ${KEY}` : "";
    return { text: isSealed ? "" : `${prose(random, 8)}${key}`, mark: `mark-${n}-${at}==`, isSealed };
  });
  const text = calls.length === 0 || random.below(2) === 0 ? prose(random, 1 + random.below(120)) : "";
  return { thoughts, text, calls, isCutOff: calls.length === 0 && random.below(20) === 0 };
}
