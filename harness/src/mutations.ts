import type { SeededRandom } from "./seeded-random.ts";

/** One way of damaging lines. */
type Mutation = (lines: string[], random: SeededRandom) => string[];

const idIn = (line: string): string => /"id":"([^"]*)"/.exec(line)?.[1] ?? "nobody";

const changeOne =
  (change: (line: string, random: SeededRandom, lines: readonly string[]) => string): Mutation =>
  (lines, random) => {
    const at = random.below(lines.length);
    return lines.map((line, each) => (each === at ? change(line, random, lines) : line));
  };

const mutations: readonly Mutation[] = [
  changeOne((line, random) => line.slice(0, random.below(line.length + 1))),
  changeOne((line, random) => line.slice(random.below(line.length + 1))),
  changeOne((line, random, lines) => line + random.pick(lines)),
  // Ids rewired: to any other, to itself, to nobody.
  changeOne((line, random, lines) =>
    line.replace(/"parentId":("[^"]*"|null)/, `"parentId":"${idIn(random.pick(lines))}"`),
  ),
  changeOne((line) => line.replace(/"parentId":("[^"]*"|null)/, `"parentId":"${idIn(line)}"`)),
  changeOne((line) => line.replace(/"parentId":("[^"]*"|null)/, '"parentId":"nobody"')),
  changeOne((line, random, lines) => line.replace(/"id":"[^"]*"/, `"id":"${idIn(random.pick(lines))}"`)),
  changeOne((line, random, lines) =>
    line.replace(/"(firstKeptEntryId|targetId|fromId)":"[^"]*"/, `"$1":"${idIn(random.pick(lines))}"`),
  ),
  // Types wrong.
  changeOne((line, random) =>
    line.replace(
      /"(type|id|parentId|timestamp|message|content|role|summary|data|version)":/,
      `"$1":${random.pick(["5", "null", "[]", "{}", "true", '"x"'])},"_":`,
    ),
  ),
  changeOne((line) => line.replace(/"type":"[a-z_]+"/, '"type":"compaction"')),
  changeOne((line) => `${line.slice(0, 1)}"__proto__":{"polluted":true},${line.slice(1)}`),
  changeOne((line, random) => line.replace(/:/, `:${"[".repeat(random.below(3_000))}`)),
  changeOne((line) => line.replace(/"/, '\ufeff"')),
  changeOne((line) => `${line}\r`),
  (lines, random) => lines.toSpliced(random.below(lines.length), 0, random.pick(lines)),
  (lines, random) => lines.toSpliced(random.below(lines.length), 1),
  (lines, random) => {
    const [one, other] = [random.below(lines.length), random.below(lines.length)];
    return lines.map((line, at) => (at === one ? lines[other]! : at === other ? lines[one]! : line));
  },
  (lines) => lines.toReversed(),
];

/** A session's lines after one to six mutations, as bytes, some of which may then be flipped. */
export function mutate(lines: string[], random: SeededRandom): Uint8Array {
  let mutated = lines;
  for (let n = 1 + random.below(6); n > 0 && mutated.length > 0; n -= 1)
    mutated = random.pick(mutations)(mutated, random);
  const bytes = Buffer.from(`${mutated.join("\n")}${random.below(4) === 0 ? "" : "\n"}`);
  for (let n = random.below(3); n > 0 && bytes.length > 0; n -= 1)
    bytes[random.below(bytes.length)] = random.below(256);
  return bytes;
}
