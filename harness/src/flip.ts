import { diagnose } from "@espalier/engine";
import { custom, memoryLog, readSessionLine, SessionTree } from "@espalier/session-tree";
import { Findings, type Harness } from "./harness.ts";
import { chainOf, sessionBytes } from "./new-session.ts";
import { SeededRandom } from "./seeded-random.ts";

/** Every single byte of a 200-line file flipped: what was not touched is there, damage is named, the next append is clean. */
export const flip: Harness = async ({ seed, isShort }) => {
  const findings = new Findings();
  const random = new SeededRandom(seed);
  const entries = chainOf(199);
  const whole = sessionBytes(entries);
  const ends: number[] = [];
  for (let at = whole.indexOf(10); at >= 0; at = whole.indexOf(10, at + 1)) ends.push(at);
  for (let at = isShort ? seed % 211 : 0; at < whole.length; at += isShort ? 211 : 1) {
    const bytes = Buffer.from(whole);
    bytes[at] = bytes[at]! ^ (1 << random.below(8));
    findings.count("files");
    // A flipped newline touches the line it ended and the next one; a new one may cut a line in two.
    const line = ends.findIndex((end) => at <= end);
    const touched = new Set(at === ends[line] ? [line, line + 1] : [line]);
    await judge(
      findings,
      bytes,
      entries.map(({ id }) => id),
      touched,
      at,
    );
  }
  return findings;
};

async function judge(
  findings: Findings,
  bytes: Buffer,
  ids: readonly string[],
  touched: ReadonlySet<number>,
  at: number,
): Promise<void> {
  const log = memoryLog(bytes);
  const session = await SessionTree.open(log);
  const { tree } = session;
  for (const [index, id] of ids.entries())
    if (!touched.has(index + 1)) findings.expect(tree.has(id), () => `Byte ${at}: the entry ${id} is lost.`);
  const { issues } = await diagnose(log);
  if (issues.length > 0) findings.count("named");
  const lines = bytes
    .toString("latin1")
    .split("\n")
    .filter((line) => line !== "");
  const bad = lines.filter((line) => readSessionLine(Buffer.from(line, "latin1")).is === "corrupt").length;
  if (bad > 0) {
    findings.count("unreadable");
    findings.expect(issues.length > 0, () => `Byte ${at}: a line is unreadable, and nothing says so.`);
  }
  if (!session.header) {
    findings.count("without a header");
    return;
  }
  if (session.header.version > 3) return;
  const [appended] = await session.append(custom.of({ customType: "trial" }));
  const view = await log.load();
  const again = await SessionTree.open(memoryLog(view.read(0, view.size)));
  findings.expect(again.leafId === appended!.id, () => `Byte ${at}: the appended entry is not the leaf.`);
}
