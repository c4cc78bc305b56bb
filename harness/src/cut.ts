import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { diagnose } from "@espalier/engine";
import { custom, readSessionLine, type SessionStore, SessionTree } from "@espalier/session-tree";
import { Findings, type Harness } from "./harness.ts";
import { chainOf, sessionBytes } from "./new-session.ts";
import { storeNamed } from "./store-named.ts";

/** Every byte of the last record cut: what is before it is there, the loss is named, and the next append is clean. */
export const cut: Harness = async ({ store: storeName, folder, isShort }) => {
  const findings = new Findings();
  const store = storeNamed(storeName, folder);
  const entries = chainOf(12);
  const whole = sessionBytes(entries);
  const begin = whole.lastIndexOf(10, whole.length - 2) + 1;
  for (let end = begin; end < whole.length; end += isShort ? 3 : 1) {
    const file = join(folder, `cut${end}.jsonl`);
    writeFileSync(file, whole.subarray(0, end), { mode: 0o600 });
    await judge(
      findings,
      store,
      file,
      entries.map(({ id }) => id),
      end === begin ? "nothing" : end === whole.length - 1 ? "whole" : "cut",
    );
  }
  return findings;
};

async function judge(
  findings: Findings,
  store: SessionStore,
  file: string,
  ids: readonly string[],
  tail: "nothing" | "cut" | "whole",
): Promise<void> {
  findings.count("files");
  const at = file.replace(/.*\//, "");
  const session = await SessionTree.open(await store.open({ file }, "write"));
  const { issues } = await diagnose(session.log);
  const wanted = tail === "nothing" ? [] : tail === "cut" ? ["torn-tail"] : ["unterminated-tail"];
  findings.expect(
    JSON.stringify(issues.map(({ kind }) => kind)) === JSON.stringify(wanted),
    () => `${at}: the issues are ${issues.map(({ kind }) => kind).join(", ") || "none"}.`,
  );
  const [appended] = await session.append(custom.of({ customType: "trial" }));
  await session.close();
  const log = await store.open({ file }, "read");
  const again = await SessionTree.open(log);
  const kept = tail === "whole" ? ids : ids.slice(0, -1);
  for (const id of kept) findings.expect(again.tree.has(id), () => `${at}: the entry ${id} is lost.`);
  findings.expect(again.leafId === appended!.id, () => `${at}: the appended entry is not the leaf.`);
  const view = await log.load();
  const line = Buffer.from(view.read(0, view.size)).toString().trimEnd().split("\n").at(-1)!;
  const read = readSessionLine(Buffer.from(line));
  const isClean = read.is === "entry" && read.from === 0 && read.entry.id === appended!.id;
  findings.expect(isClean, () => `${at}: the appended entry does not stand on a line of its own.`);
  await log.close();
}
