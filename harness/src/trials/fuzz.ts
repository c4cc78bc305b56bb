import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { diagnose } from "@espalier/engine";
import { EspalierError } from "@espalier/jsonl-stream";
import { memoryLog, SessionTree } from "@espalier/session-tree";
import { Findings, type Harness, SeededRandom } from "../harness.ts";
import { chainOf, sessionBytes } from "../stores.ts";

/** Milliseconds a file of 100 KB may take. */
const SLOW_MS = 50;

/** Repetitions for a file that took longer: the machine has other work, and the quickest time is the file's own. */
const LOOKS = 10;

/** Bytes of a real session in one file. */
const PIECE = 4_000;

/** Mutated sessions: each opens or is refused by its code, quickly, and no good line is dropped silently. */
export const fuzz: Harness = {
  async run({ seed, isShort, count }, findings) {
    // Taken apart once: that costs far more than a file that is made of it.
    const sources = realSessions(findings).map((source) => source.toString("utf8").split("\n").slice(0, -1));
    const total = count ?? (isShort ? 250 : 1_000_000);
    for (let n = 0; n < total; n += 1) {
      const random = new SeededRandom(seed * 1_000_003 + n);
      const bytes = mutate(pieceOf(random.pick(sources), random), random);
      const here = findings.at(`File ${n} of seed ${seed}`);
      let took = await read(bytes, here);
      const limit = SLOW_MS * Math.max(1, bytes.length / 100_000);
      for (let again = 0; took > limit && again < LOOKS; again += 1)
        took = Math.min(took, await read(bytes, new Findings()));
      here.expect(took <= limit, `it took ${took.toFixed(0)} ms.`);
      findings.count("files");
      findings.count("bytes", bytes.length);
    }
  },
};

/** Reads one file in every way; returns the milliseconds. */
async function read(bytes: Uint8Array, findings: Findings): Promise<number> {
  const began = performance.now();
  try {
    const log = memoryLog(bytes);
    const session = await SessionTree.open(log);
    void session.context;
    const { issues } = await diagnose(log);
    const took = performance.now() - began;
    const lost = silentlyLost(bytes, session, new Set(issues.map(({ line }) => line)));
    findings.expect(lost === 0, `${lost} good lines are dropped silently.`);
    findings.count(issues.length > 0 ? "with issues" : "without issues");
    return took;
  } catch (error) {
    const code = error instanceof EspalierError ? error.code : "";
    findings.expect(code === "not-a-session", `${(error as Error).stack}`);
    findings.count("refused");
    return performance.now() - began;
  }
}

/** Counts the lines that parse to an entry, are no entry of the tree, and are named in no issue. */
function silentlyLost(
  bytes: Uint8Array,
  { tree, header }: SessionTree,
  named: ReadonlySet<number | null>,
): number {
  // Old formats get ids while they are read.
  if (header && header.version < 3) return 0;
  const lines = Buffer.from(bytes).toString("latin1").split("\n");
  return lines.filter((line, at) => {
    const id = named.has(at + 1) ? undefined : entryIdOf(Buffer.from(line.replace(/\r$/, ""), "latin1"));
    return id !== undefined && !tree.has(id);
  }).length;
}

function entryIdOf(bytes: Buffer): string | undefined {
  try {
    const value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes)) ?? {};
    const { id, type, parentId = null } = value as Record<string, unknown>;
    const isEntry = typeof type === "string" && type !== "session" && id !== "";
    const hasParent = parentId === null || typeof parentId === "string";
    return typeof id === "string" && isEntry && hasParent ? id : undefined;
  } catch {
    // Not a readable line.
    return undefined;
  }
}

function pieceOf(lines: readonly string[], random: SeededRandom): string[] {
  const from = 1 + random.below(Math.max(1, lines.length - 20));
  const piece = [lines[0]!];
  for (let size = 0, at = from; at < lines.length && size < PIECE; at += 1) {
    size += lines[at]!.length;
    if (lines[at]!.length < PIECE) piece.push(lines[at]!);
  }
  return piece;
}

/** Real sessions of the corpus beside the repository; where there is none, a made one. */
function realSessions(findings: Findings): Buffer[] {
  const made = [sessionBytes(chainOf(60))];
  const corpus = ["../shared/corpus/pi", "../../shared/corpus/pi"]
    .map((path) => resolve(path))
    .find((path) => existsSync(path));
  if (!corpus) {
    findings.skipped.push("No corpus of real sessions beside the repository: made ones are mutated.");
    return made;
  }
  const files = readdirSync(corpus, { recursive: true, withFileTypes: true })
    .filter((file) => file.isFile() && file.name.endsWith(".jsonl"))
    .map((file) => join(file.parentPath, file.name))
    .filter((file) => statSync(file).size < 4_000_000)
    .sort()
    .slice(0, 40);
  findings.count("real sessions", files.length);
  return [...made, ...files.map((file) => readFileSync(file))];
}

/** Damages lines in one way. */
type Mutation = (lines: string[], random: SeededRandom) => string[];

const idIn = (line: string): string => /"id":"([^"]*)"/.exec(line)?.[1] ?? "no-entry";

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
  // Ids rewired: to any other, to itself, to none.
  changeOne((line, random, lines) =>
    line.replace(/"parentId":("[^"]*"|null)/, `"parentId":"${idIn(random.pick(lines))}"`),
  ),
  changeOne((line) => line.replace(/"parentId":("[^"]*"|null)/, `"parentId":"${idIn(line)}"`)),
  changeOne((line) => line.replace(/"parentId":("[^"]*"|null)/, '"parentId":"no-entry"')),
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
function mutate(lines: string[], random: SeededRandom): Uint8Array {
  let mutated = lines;
  for (let n = 1 + random.below(6); n > 0 && mutated.length > 0; n -= 1)
    mutated = random.pick(mutations)(mutated, random);
  const bytes = Buffer.from(`${mutated.join("\n")}${random.below(4) === 0 ? "" : "\n"}`);
  for (let n = random.below(3); n > 0 && bytes.length > 0; n -= 1)
    bytes[random.below(bytes.length)] = random.below(256);
  return bytes;
}
