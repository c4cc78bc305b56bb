import { copyFileSync, existsSync, mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { openSession } from "@espalier/engine";
import { anthropicFormat, buildRequest } from "@espalier/session-tree";
import { expect, test } from "vitest";

const corpus = fileURLToPath(new URL("../../../../shared/corpus/pi/large-session.jsonl", import.meta.url));

test.skipIf(!existsSync(corpus))(
  "a real session is compacted, and going back before it brings the old context",
  async () => {
    const path = join(mkdtempSync(join(tmpdir(), "espalier-")), "session.jsonl");
    copyFileSync(corpus, path);
    const session = await openSession(path);
    const before = structuredClone(session.context);
    const leafId = session.leafId;
    const result = await session.compact();
    if (!result.eligible) throw new Error(result.reason);
    expect(result.tokensAfter).toBeLessThan(26_000);
    expect(session.context.tokens).toBe(result.tokensAfter);
    expect(session.context.messages[0]).toMatchObject({ role: "compactionSummary" });
    const request = buildRequest(session.context, { format: anthropicFormat });
    expect(request.messages[0]?.role).toBe("user");
    const reopened = await openSession(path, { mode: "read" });
    expect(reopened.context).toEqual(session.context);
    await session.navigate(leafId);
    expect(session.context).toEqual(before);
    const text = readFileSync(path, "utf8");
    expect(text.endsWith("\n")).toBe(true);
  },
);
