import { createSession } from "@espalier/engine";
import { memoryStore } from "@espalier/session-tree";
import { summarizer } from "@espalier/summarizer";
import { expect, test } from "vitest";

const quiet = { warn() {}, error() {} };

async function grown(options: Parameters<typeof createSession>[0]) {
  const session = await createSession({
    store: memoryStore(),
    log: quiet,
    compaction: { keepRecentTokens: 10 },
    ...options,
  });
  for (const day of [1, 2, 3])
    await session.appendMessages([
      { role: "user", content: `Day ${day}: ${"pears ".repeat(100)}` },
      { role: "assistant", content: "Ripe." },
    ]);
  return session;
}

test("a function can be a summarizer: it gets the transcript and the instructions, and returns the summary", async () => {
  const asked: { transcript: string; instructions: string }[] = [];
  const own = summarizer(({ transcript, instructions }) => {
    asked.push({ transcript, instructions });
    return "## Goal\nTend the pears.";
  });
  const session = await grown({ summarizer: own });
  expect(await session.compact()).toMatchObject({ eligible: true, source: "own" });
  expect(asked[0]!.transcript).toContain("Day 1: pears");
  expect(asked[0]!.instructions).toContain("## Goal");
  expect(JSON.stringify(session.context.messages[0])).toContain("Tend the pears.");
});

test("an error of such a function fails the compaction, and an abort reaches it", async () => {
  const failing = summarizer(() => {
    throw new Error("The model sleeps.");
  });
  const session = await grown({ summarizer: failing, fallback: false, sleep: async () => {} });
  await expect(session.compact()).rejects.toThrow("The model sleeps.");
  const mute = summarizer((() => undefined) as never);
  await expect(session.compact({ summarizer: mute })).rejects.toThrow(
    'The summarizer "own" returned no text',
  );
  const controller = new AbortController();
  let heard = false;
  const waiting = summarizer(
    (_, signal) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener("abort", () => {
          heard = true;
          reject(signal.reason);
        });
        controller.abort();
      }),
  );
  await expect(session.compact({ summarizer: waiting, signal: controller.signal })).rejects.toThrow();
  expect(heard).toBe(true);
});
