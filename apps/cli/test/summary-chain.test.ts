// A session that is compacted often is summarized in a chain: each summary is made from the one before it.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { generateSummary } from "@espalier/compaction";
import { openSession } from "@espalier/engine";
import { cutsOf, Examination, Transcript } from "@espalier/engine/eval";
import { importSessions } from "@espalier/interop/node";
import { type ContextMessage, message } from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { extractiveSummarizer } from "@espalier/summarizer";
import { describe, expect, test } from "vitest";
import { temporaryFolder } from "./espalier.ts";

const CORPUS = fileURLToPath(new URL("../../../../shared/corpus", import.meta.url));
const FILES = ["long", "pi/large-session.jsonl"].map((name) => join(CORPUS, name));

/** Summaries of a chain, and the loss that is accepted in each measure. */
const LENGTH = 6;
const MOST_LOST = 0.05;

const MEASURES = ["reach", "user", "found", "state"] as const;

async function summaryOf(messages: readonly ContextMessage[]): Promise<string> {
  const { text } = await generateSummary(messages, { summarizer: extractiveSummarizer() });
  return text;
}

async function chainOf(messages: readonly ContextMessage[]): Promise<string> {
  let summary = "";
  for (let part = 0; part < LENGTH; part++) {
    const [from, to] = [part, part + 1].map((at) => Math.floor((messages.length * at) / LENGTH));
    const before: ContextMessage[] =
      summary === "" ? [] : [{ role: "compactionSummary", summary, tokensBefore: 1_000, timestamp: 1 }];
    summary = await summaryOf([...before, ...messages.slice(from, to)]);
  }
  return summary;
}

const mean = (values: readonly (number | null)[]): number | null => {
  const known = values.filter((value) => value !== null);
  return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0) / known.length;
};

describe.skipIf(!existsSync(CORPUS))("real sessions (skipped where ../shared/corpus is absent)", () => {
  test("lose at most 0.05 of each measure when their summary is written in a chain of six", async () => {
    const home = temporaryFolder();
    const store = fileStore({ home });
    const lost: Record<(typeof MEASURES)[number], (number | null)[]> = {
      reach: [],
      user: [],
      found: [],
      state: [],
    };
    for (const path of FILES)
      for await (const { file } of importSessions(path, { store })) {
        if (file === null) continue;
        const session = await openSession({ file }, { home, mode: "read" });
        const said = session
          .getEntries()
          .flatMap((entry) => (message.is(entry) && entry.message.role !== "system" ? [entry.message] : []));
        await session.close();
        const transcript = new Transcript(said as ContextMessage[]);
        const differences = await Promise.all(
          cutsOf(transcript).cuts.map(async (cut) => {
            const examination = new Examination(cut);
            const messages = cut.summarized.map((read) => read.message);
            const [once, chain] = [await summaryOf(messages), await chainOf(messages)];
            return [examination.measure(once), examination.measure(chain)] as const;
          }),
        );
        for (const name of MEASURES) {
          const of = (at: 0 | 1) => mean(differences.map((pair) => pair[at][name]));
          const [once, chain] = [of(0), of(1)];
          lost[name].push(once === null || chain === null ? null : once - chain);
        }
      }
    for (const name of MEASURES) {
      expect(lost[name].length).toBeGreaterThan(3);
      expect(mean(lost[name])!, name).toBeLessThanOrEqual(MOST_LOST);
    }
  });
});
