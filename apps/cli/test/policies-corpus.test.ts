import { copyFileSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { POLICY_NAMES } from "@espalier/engine";
import { checkAnthropicRequest } from "@espalier/session-tree/testing";
import { describe, expect, test } from "vitest";
import { espalierJson, temporaryFolder } from "./espalier.ts";

const CORPUS = fileURLToPath(new URL("../../../../shared/corpus/pi/large-session.jsonl", import.meta.url));

/** Limits that a session of this size exceeds under every policy; the defaults decide the rest. */
const SETTINGS = { contextWindow: 100_000, reserveTokens: 10_000, offloadThreshold: 30_000 };

describe.skipIf(!existsSync(CORPUS))(
  "every policy on a session of a real agent (skipped where ../shared/corpus is absent)",
  () => {
    test.concurrent.each(POLICY_NAMES)(
      "%s: compact leads to a smaller, valid request, and navigating to before it restores the old context",
      async (policy) => {
        const cwd = temporaryFolder();
        const file = join(cwd, "session.jsonl");
        copyFileSync(CORPUS, file);
        mkdirSync(join(cwd, ".espalier"));
        writeFileSync(join(cwd, ".espalier", "settings.json"), JSON.stringify(SETTINGS));
        const run = (...parameters: string[]) => espalierJson(parameters, { cwd });

        const before = await run("context", file);
        const done = await run("compact", file, "--policy", policy, "--summarizer", "extractive");
        expect(done.code).toBe(0);
        expect(done.value.tokensAfter).toBeLessThan(done.value.tokensBefore);

        // The test of this name in the engine holds the limit of each policy.
        expect((await run("context", file)).value.tokens).toBeLessThan(before.value.tokens);
        const { value: request } = await run("context", file, "--format", "anthropic");
        expect(checkAnthropicRequest({ model: "m", max_tokens: 1_000, ...request })).toEqual([]);

        expect((await run("navigate", file, before.value.leafId)).value.leafId).toBe(before.value.leafId);
        expect((await run("context", file)).value).toEqual(before.value);
      },
    );
  },
);
