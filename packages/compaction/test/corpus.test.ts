import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { prepareCompaction } from "@espalier/compaction";
import { SessionTree } from "@espalier/session-tree";
import { FileLog } from "@espalier/session-tree/node";
import { expect, test } from "vitest";

const corpus = fileURLToPath(new URL("../../../../shared/corpus/pi/large-session.jsonl", import.meta.url));

test.skipIf(!existsSync(corpus))(
  "a real session is cut where its rule says (skipped where it is not at hand)",
  async () => {
    const session = await SessionTree.open(FileLog.open(corpus, "read"));
    const plan = prepareCompaction(session.getBranch(), { keepRecentTokens: 20_000 });
    if (!plan.eligible) throw new Error(plan.reason);
    const place = (id: string | null) => (id === null ? 0 : session.tree.row(id) + 1);
    expect(place(plan.firstKeptEntryId)).toBe(838);
    expect(place(plan.turnStartEntryId)).toBe(835);
    expect(plan.isSplitTurn).toBe(true);
    expect(plan.historyIds).toHaveLength(730);
    expect(plan.turnPrefixIds).toHaveLength(3);
    expect(plan.messagesToSummarize).toHaveLength(730);
  },
);
