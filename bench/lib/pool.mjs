// Text to cut messages from: prose and code in the proportions in which agents' sessions have them, with the quotes,
// line ends and characters beyond ASCII that make JSON escape and UTF-8 decode.
import { randomFrom } from "./random.mjs";

const WORDS =
  "the a cache store key value file path line test fails passes returns reads writes because when each entry session " +
  "request response handler timeout retry index column row parse scan offset buffer stream error cause branch leaf " +
  "summary token window model answer prompt tool result import export async await function const return größer naïve";
const CODE = [
  '  if (!entry) throw new Error("There is no entry here.");\n',
  "  const found = rows.filter((row) => row.kind === KIND && row.parent >= 0);\n",
  "\treturn { ok: true, value: JSON.parse(text) };\n",
  "export function nameOf(path: string): string | undefined {\n",
  "}\n\n",
  '    expect(read("a/b.json")).toEqual({ "id": 7, "path": "C:\\\\tmp" });\n',
  "  // The last byte in use ends the last line or belongs to it.\n",
];
/** Words that no single byte a character can hold: texts with them are rarer, and dearer to read. */
const WIDE_WORDS = " — → 日付 ✓ “quoted”";
const POOL_LENGTH = 1 << 20;

/** A text of a million characters, each of them one byte in memory unless it is `wide`. */
export function textPool(/** @type {boolean} */ isWide) {
  const random = randomFrom(7);
  const words = (isWide ? WORDS + WIDE_WORDS : WORDS).split(" ");
  const parts = [];
  for (let length = 0; length < POOL_LENGTH; length += parts.at(-1).length) {
    if (random() < 0.3) parts.push(CODE[Math.floor(random() * CODE.length)]);
    else {
      const count = 4 + Math.floor(random() * 14);
      const sentence = Array.from({ length: count }, () => words[Math.floor(random() * words.length)]);
      parts.push(`${sentence.join(" ")}. `);
    }
  }
  return parts.join("");
}
