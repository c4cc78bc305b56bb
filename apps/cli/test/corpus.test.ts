import { copyFileSync, existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { espalier, espalierJson, linesOf, stateOf, temporaryFolder } from "./espalier.ts";

const CORPUS = fileURLToPath(new URL("../../../../shared/corpus/pi/large-session.jsonl", import.meta.url));

describe.skipIf(!existsSync(CORPUS))(
  "a session of a real agent (skipped where ../shared/corpus is absent)",
  () => {
    test("is read as 1,018 entries and a context of 914 messages, with the same ids each time", async () => {
      const before = stateOf(CORPUS);
      const [once, again, context] = await Promise.all([
        espalierJson(["tree", CORPUS, "--ids"]),
        espalierJson(["tree", CORPUS, "--ids"]),
        espalierJson(["context", CORPUS]),
      ]);
      expect(once.value.entries).toHaveLength(1_018);
      expect(again.stdout).toBe(once.stdout);
      expect(once.value.session.version).toBe(1);
      expect(context.value).toMatchObject({
        tokens: 124_661,
        model: { provider: "anthropic", modelId: "claude-sonnet-4-5" },
      });
      expect(context.value.messages).toHaveLength(914);
      expect(stateOf(CORPUS)).toBe(before);
    });

    test("would be compacted at the entries that the rule predicts", async () => {
      const [{ value: plan }, { value: tree }] = await Promise.all([
        espalierJson(["compact", CORPUS, "--dry-run", "--keep-recent", "20000"]),
        espalierJson(["tree", CORPUS, "--ids"]),
      ]);
      expect(Object.keys(plan)).toEqual([
        "eligible",
        "reason",
        "policy",
        "firstKeptEntryId",
        "turnStartEntryId",
        "isSplitTurn",
        "tokensBefore",
        "tokensAfter",
        "history",
        "turnPrefix",
        "kept",
        "edits",
        "cache",
      ]);
      expect(plan).toMatchObject({
        eligible: true,
        reason: null,
        policy: "token-budget",
        firstKeptEntryId: tree.entries[837].id,
        turnStartEntryId: tree.entries[834].id,
        isSplitTurn: true,
        tokensBefore: 124_661,
      });
      expect(plan.history).toHaveLength(730);
      expect(plan.turnPrefix).toHaveLength(3);
    });

    test("keeps its old form in a second file when it is first written", async () => {
      const file = join(temporaryFolder(), "old.jsonl");
      copyFileSync(CORPUS, file);
      const ids = (await espalierJson(["tree", file, "--ids"])).value.entries.map(
        ({ id }: { id: string }) => id,
      );
      expect((await espalier(["name", file, "Themes"])).code).toBe(0);
      expect(stateOf(`${file}.v1`).split(" ")[0]).toBe(stateOf(CORPUS).split(" ")[0]);
      const after = linesOf(file);
      expect(after[0]).toMatchObject({ version: 3 });
      expect(after.slice(1, -1).map(({ id }) => id)).toEqual(ids);
    });

    test("is forked and replayed, and every step is verified", async () => {
      const out = join(temporaryFolder(), "fork.jsonl");
      const { value: tree } = await espalierJson(["tree", CORPUS, "--ids"]);
      expect((await espalier(["fork", CORPUS, tree.entries[299].id, "--out", out])).code).toBe(0);
      const { code, values } = await espalierJson(["replay", out, "--verify"]);
      expect(code).toBe(0);
      expect(values).toHaveLength(300);
    });
  },
);
