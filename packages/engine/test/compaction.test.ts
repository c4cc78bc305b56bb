import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { openSession } from "@espalier/engine";
import { anthropicFormat, buildRequest } from "@espalier/session-tree";
import { expect, test } from "vitest";

const corpus = fileURLToPath(new URL("../../../../shared/corpus/pi/large-session.jsonl", import.meta.url));

test.skipIf(!existsSync(corpus))(
  "a real session is compacted, and navigating back before it restores the old context",
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "espalier-"));
    const path = join(folder, "session.jsonl");
    copyFileSync(corpus, path);
    const session = await openSession({ file: path }, { home: folder });
    const before = structuredClone(session.context);
    const leafId = session.leafId;
    const result = await session.compact();
    if (!result.eligible) throw new Error(result.reason);
    expect(result.tokensAfter).toBeLessThan(26_000);
    expect(session.context.tokens).toBe(result.tokensAfter);
    expect(session.context.messages[0]).toMatchObject({ role: "compactionSummary" });
    const request = buildRequest(session.context, { format: anthropicFormat });
    expect(request.messages[0]?.role).toBe("user");
    const reopened = await openSession({ file: path }, { home: folder, mode: "read" });
    expect(reopened.context).toEqual(session.context);
    await session.navigate(leafId);
    expect(session.context).toEqual(before);
    expect(readFileSync(path, "utf8").endsWith("\n")).toBe(true);
    await session.close();
    await reopened.close();
    rmSync(folder, { recursive: true });
  },
);
