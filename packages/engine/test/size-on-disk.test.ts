import { createSession } from "@espalier/engine";
import { memoryStore } from "@espalier/session-tree";
import { scriptedSummarizer } from "@espalier/summarizer/testing";
import { expect, test } from "vitest";
import { soundAnswer } from "./build-session.ts";

const PICTURES = 100;
const COMPACTIONS = 500;

test("five hundred compactions of a session with a hundred images repeat no kept content", async () => {
  const session = await createSession({
    store: memoryStore(),
    compaction: { keepRecentTokens: 2_500, autoCompact: false },
    summarizer: scriptedSummarizer((request) => soundAnswer(request)),
  });
  const size = () => session.log.view!.size;
  const data = Buffer.alloc(3_000, "picture").toString("base64");
  let said = 0;
  let summarised = 0;
  for (let round = 0; round < COMPACTIONS; round++) {
    const before = size();
    const picture = { type: "image" as const, data, mimeType: "image/png" };
    const blocks = [{ type: "text" as const, text: `Bed ${round}. ${"Mind the worms. ".repeat(60)}` }];
    await session.appendMessages([
      { role: "user", content: round < PICTURES ? [...blocks, picture] : blocks },
      { role: "assistant", content: `Bed ${round} has beans. ${"They grow. ".repeat(60)}` },
    ]);
    said += size() - before;
    const { eligible } = await session.compact();
    if (eligible) summarised += 1;
  }
  expect(summarised).toBeGreaterThan(COMPACTIONS * 0.9);
  // Each is its summary, the goal of a kilobyte beside it, and what it records of itself, and keeps four times as much.
  expect(size() - said).toBeLessThan(summarised * 2_500);
  await session.close();
}, 60_000);
