import { copyFileSync, existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { TokenCounter } from "@espalier/compaction/policies";
import {
  type OpenOptions,
  openSession,
  POLICY_NAMES,
  type PolicyName,
  type PolicySettings,
} from "@espalier/engine";
import { anthropicFormat, buildRequest, openaiChatFormat } from "@espalier/session-tree";
import { checkAnthropicRequest } from "@espalier/session-tree/testing";
import { describe, expect, test } from "vitest";
import { readByTheRules } from "./pi-rules.ts";
import { newFile } from "./policy-stage.ts";

const corpus = fileURLToPath(new URL("../../../../shared/corpus/pi/large-session.jsonl", import.meta.url));

/** Limits that a session of this size exceeds under every policy. */
const settings: PolicySettings = { offloadThreshold: 30_000 };
const window = { contextWindow: 100_000, reserveTokens: 10_000 };

function opened(options: OpenOptions) {
  const file = newFile();
  copyFileSync(corpus, file);
  const log = { warn: () => {}, error: () => {} };
  return openSession({ file }, { policySettings: settings, compaction: window, log, ...options });
}

/** What a policy promises of the context it leaves. */
const LIMITS: Record<PolicyName, (context: { messages: readonly never[]; tokens: number }) => void> = {
  "token-budget": ({ tokens }) => expect(tokens).toBeLessThan(90_000),
  "sliding-window": ({ messages }) => expect(messages.length).toBeLessThanOrEqual(41 + 4),
  "message-count": ({ messages }) => expect(messages.length).toBeLessThanOrEqual(11 + 4),
  offload: ({ tokens }) => expect(tokens).toBeLessThan(30_000),
  pressure: ({ messages }) => expect(TokenCounter.messages(messages)).toBeLessThanOrEqual(4_800),
};

describe.skipIf(!existsSync(corpus))("a real session (skipped without the corpus)", () => {
  test.each(POLICY_NAMES)(
    "%s ends in a valid request below its limit; navigating back restores the old context",
    async (policy) => {
      const session = await opened({ policy });
      const before = structuredClone(session.context);
      const leafId = session.leafId;
      // The file is of an old version, and becomes one of ours with the first write.
      await session.label(leafId!, "before");
      const text = readFileSync(session.file, "utf8");

      const result = await session.compact();
      if (!result.eligible) throw new Error(result.reason);
      expect(result.tokensAfter).toBeLessThan(result.tokensBefore);
      LIMITS[policy](session.context as never);
      const request = buildRequest(session.context, { format: anthropicFormat });
      expect(checkAnthropicRequest({ model: "m", max_tokens: 1_000, ...request } as never)).toEqual([]);
      expect(buildRequest(session.context, { format: openaiChatFormat }).messages.length).toBeGreaterThan(0);

      // The old file is a prefix of the new one, and a reader by the published rules reads the same.
      const after = readFileSync(session.file, "utf8");
      expect(after.startsWith(text)).toBe(true);
      expect(readByTheRules(after, session.leafId!)).toEqual(
        JSON.parse(JSON.stringify(session.context.messages)),
      );

      const compacted = structuredClone(session.context);
      await session.close();
      const reopened = await openSession({ file: session.file }, { mode: "read" });
      expect(reopened.context).toEqual(compacted);
      await reopened.close();

      const again = await openSession({ file: session.file }, { compaction: window });
      await again.navigate(leafId);
      expect(again.context).toEqual(before);
      await again.close();
    },
  );

  test.each(POLICY_NAMES)(
    "%s keeps a growing session within its limit, request after request",
    async (policy) => {
      const session = await opened({ policy });
      for (let turn = 0; turn < 4; turn++) {
        await session.appendMessages([{ role: "user", content: `turn ${turn}: ${"go on ".repeat(300)}` }]);
        const { context, failure } = await session.prepareRequest();
        expect(failure).toBeNull();
        const request = buildRequest(context, { format: anthropicFormat });
        expect(checkAnthropicRequest({ model: "m", max_tokens: 1_000, ...request } as never)).toEqual([]);
        expect(context.tokens).toBeLessThan(100_000);
        if (policy === "sliding-window") expect(context.messages.length).toBeLessThanOrEqual(76);
        await session.appendMessages([{ role: "assistant", content: `done ${"and more ".repeat(300)}` }]);
      }
      // A reader by the published rules reads the same, files moved out and all.
      const text = readFileSync(session.file, "utf8");
      expect(readByTheRules(text, session.leafId!)).toEqual(
        JSON.parse(JSON.stringify(session.context.messages)),
      );
      await session.close();
    },
  );
});
