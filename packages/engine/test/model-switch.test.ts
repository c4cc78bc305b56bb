import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createSession, resolveSettings, type Session, sessionOptionsOf } from "@espalier/engine";
import { memoryStore, modelChange } from "@espalier/session-tree";
import { scriptedSummarizer } from "@espalier/summarizer/testing";
import { afterEach, beforeEach, expect, test } from "vitest";
import { soundAnswer, turn } from "./build-session.ts";

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "espalier-home-"));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

const settings = (value: object) => writeFileSync(join(home, "settings.json"), JSON.stringify(value));

/** A session that goes by the settings of a home, and what it was asked to log. */
async function begun(): Promise<{ session: Session; errors: string[] }> {
  const errors: string[] = [];
  const session = await createSession({
    store: memoryStore(),
    summarizer: scriptedSummarizer(soundAnswer),
    log: { warn: () => {}, error: (message) => errors.push(message) },
    settle: async (model) =>
      sessionOptionsOf((await resolveSettings({ home, cwd: home, env: {}, model })).values),
  });
  return { session, errors };
}

const choose = (session: Session, modelId: string) =>
  session.append(modelChange.of({ provider: "anthropic", modelId }));

test("another model changes the settings at once, and switching back restores the earlier ones", async () => {
  settings({ models: { small: { contextWindow: 2_000, keepRecentTokens: 200 } } });
  const { session } = await begun();
  const [chosen] = await choose(session, "large");
  expect(session.options.compaction).toMatchObject({ contextWindow: 200_000 });
  for (let at = 0; at < 8; at++) await session.appendMessages(turn(`${at}`));
  expect(await session.compactWhenDue()).toBeUndefined();

  await choose(session, "small");
  expect(session.options.compaction).toMatchObject({ contextWindow: 2_000, reserveTokens: 1_000 });
  expect(await session.compactWhenDue()).toMatchObject({ eligible: true });
  expect(session.context.tokens).toBeLessThan(1_000);

  await session.navigate(chosen!.id);
  await session.appendMessages([{ role: "user", content: "again" }]);
  expect(session.options.compaction).toMatchObject({ contextWindow: 200_000 });
});

test("an answer by another model also changes the model, and the next request waits for its settings", async () => {
  let open = (): void => {};
  const found = new Promise<void>((resolve) => {
    open = resolve;
  });
  const session = await createSession({
    store: memoryStore(),
    summarizer: scriptedSummarizer(soundAnswer),
    settle: async (modelOf) => {
      if (modelOf() !== "other/small") return {};
      await found;
      return { compaction: { contextWindow: 2_000, reserveTokens: 1_000, keepRecentTokens: 200 } };
    },
  });
  for (let at = 0; at < 8; at++) await session.appendMessages(turn(`${at}`));
  const answer = { role: "assistant" as const, content: "short", provider: "other", model: "small" };
  const answered = session.appendMessages([answer, { role: "user", content: "go on" }]);
  while (session.context.model?.modelId !== "small") await new Promise((resolve) => setImmediate(resolve));
  const prepared = session.prepareRequest();
  open();
  expect((await prepared).compaction).toMatchObject({ eligible: true });
  expect((await prepared).context.tokens).toBeLessThan(1_000);
  await answered;
});

test("a policy that evaluates appends uses the settings of the current model", async () => {
  settings({ policy: "message-count", models: { small: { maxMessages: 6, keepLast: 2 } } });
  const { session } = await begun();
  await choose(session, "large");
  for (let at = 0; at < 4; at++) await session.appendMessages(turn(`${at}`));
  expect(session.isCompacting).toBe(false);
  await choose(session, "small");
  await session.appendMessages([{ role: "user", content: "now" }]);
  const deadline = Date.now() + 30_000;
  while (session.getBranch().every(({ type }) => type !== "compaction")) {
    expect(Date.now()).toBeLessThan(deadline);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await session.close();
  expect(session.context.messages.length).toBeLessThanOrEqual(5);
});

test("invalid settings for a new model are reported with its name, and the earlier settings stay", async () => {
  settings({ reserveTokens: 80_000, models: { tiny: { contextWindow: 20_000 } } });
  const { session, errors } = await begun();
  await choose(session, "large");
  await choose(session, "tiny");
  expect(session.options.compaction).toMatchObject({ contextWindow: 200_000, reserveTokens: 80_000 });
  expect(errors).toHaveLength(1);
  expect(errors[0]).toMatch(/reserveTokens is 80000.*tiny is 20000 tokens/);
});
