import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { prepareCompaction } from "@espalier/compaction";
import { SessionTree } from "@espalier/session-tree";
import { FileLog } from "@espalier/session-tree/node";
import { describe, expect, test } from "vitest";
import { naiveCut } from "./naive-cut.ts";

const corpus = fileURLToPath(new URL("../../../../shared/corpus/pi/large-session.jsonl", import.meta.url));

describe.skipIf(!existsSync(corpus))("a real session (skipped without the corpus)", async () => {
  const open = () => SessionTree.open(FileLog.open(corpus, "read"));

  test("is cut at its 838th entry, in the turn that begins at the 835th", async () => {
    const session = await open();
    const plan = prepareCompaction(session.getBranch(), { keepRecentTokens: 20_000 });
    if (!plan.eligible) throw new Error(plan.reason);
    const place = (id: string | null) => (id === null ? 0 : session.tree.row(id) + 1);
    expect(place(plan.firstKeptEntryId)).toBe(838);
    expect(place(plan.turnStartEntryId)).toBe(835);
    expect(plan.isSplitTurn).toBe(true);
    expect(plan.historyIds).toHaveLength(730);
    expect(plan.turnPrefixIds).toHaveLength(3);
    expect(plan.messagesToSummarize).toHaveLength(730);
  });

  test("is cut where the rule says, for any number of kept tokens", async () => {
    const path = (await open()).getBranch();
    for (const keepRecentTokens of [0, 300, 1_000, 4_321, 20_000, 50_000, 110_000]) {
      const cut = naiveCut(path, keepRecentTokens);
      const plan = prepareCompaction(path, { keepRecentTokens });
      if (!plan.eligible) throw new Error(plan.reason);
      expect(plan.firstKeptEntryId).toBe(path[cut.firstKeptIndex]!.id);
      expect(plan.isSplitTurn).toBe(cut.isSplitTurn);
      expect(plan.turnStartEntryId).toBe(cut.isSplitTurn ? path[cut.turnStartIndex]!.id : null);
    }
  });
});
