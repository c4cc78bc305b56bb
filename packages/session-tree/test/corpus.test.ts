import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildSessionContext, estimateTotal, referenceIssues, SessionTree } from "@espalier/session-tree";
import { FileLog } from "@espalier/session-tree/node";
import { afterAll, describe, expect, test } from "vitest";

const corpus = fileURLToPath(new URL("../../../../shared/corpus/pi/large-session.jsonl", import.meta.url));

const folder = mkdtempSync(join(tmpdir(), "espalier-"));
afterAll(() => rmSync(folder, { recursive: true }));

describe.skipIf(!existsSync(corpus))(
  "a real session of 1,018 lines in the first format (skipped without the corpus)",
  () => {
    test("opens completely, with the context that its agent had", async () => {
      const session = await SessionTree.open(FileLog.open(corpus, "read"));
      expect(session.tree.length).toBe(1_018);
      expect(session.tree.issues).toEqual([]);
      expect(referenceIssues(session.tree)).toEqual([]);
      expect(session.context.messages).toHaveLength(914);
      expect(session.context.tokens).toBe(124_661);
      expect(estimateTotal(session.context.messages)).toBe(124_661);
      expect(session.context.model).toEqual({ provider: "anthropic", modelId: "claude-sonnet-4-5" });
      expect(buildSessionContext(session.tree)).toEqual(session.context);
      expect(buildSessionContext([...session.tree.entries()])).toEqual(session.context);
    });

    test("gives the same ids each time it is read", async () => {
      const first = await SessionTree.open(FileLog.open(corpus, "read"));
      const second = await SessionTree.open(FileLog.open(corpus, "read"));
      expect([...second.tree.ids()]).toEqual([...first.tree.ids()]);
      expect(new Set(first.tree.ids()).size).toBe(1_018);
    });

    test("is upgraded by its first append, and the original is kept", async () => {
      const path = join(folder, "session.jsonl");
      copyFileSync(corpus, path);
      const session = await SessionTree.open(FileLog.open(path, "write"));
      const ids = [...session.tree.ids()];
      const [entry] = await session.append({
        type: "message",
        message: { role: "user", content: "go on", timestamp: 1 },
      } as never);
      expect(readFileSync(`${path}.v1`)).toEqual(readFileSync(corpus));
      const reopened = await SessionTree.open(FileLog.open(path, "read"));
      expect(reopened.header?.version).toBe(3);
      expect([...reopened.tree.ids()]).toEqual([...ids, entry!.id]);
      expect(reopened.context).toEqual(session.context);
    });
  },
);
