import { generateSummary } from "@espalier/compaction";
import { atlas, cutsOf, Examination, queue, search, shop, Transcript } from "@espalier/engine/eval";
import type { ContextMessage } from "@espalier/session-tree";
import { extractiveSummarizer } from "@espalier/summarizer";
import { describe, expect, it } from "vitest";

const summarizer = extractiveSummarizer();
const ask = async (messages: readonly ContextMessage[], previousSummary = "") =>
  (await generateSummary(messages, { summarizer, ...(previousSummary ? { previousSummary } : {}) })).text;

describe.each(Object.entries({ atlas, queue, search, shop }))("a written session: %s", (_name, messages) => {
  const transcript = new Transcript(messages);
  const { cuts } = cutsOf(transcript);
  const historyOf = ({ summarized }: (typeof cuts)[number]) => summarized.map((at) => messages[at]!);

  it("is carried by a readable summary: what was asked, what was found, the state", async () => {
    expect(cuts.length).toBeGreaterThanOrEqual(3);
    for (const cut of cuts) {
      const text = await ask(historyOf(cut));
      const { tokens, user, found, state, dump } = new Examination(transcript, cut).measure(text);
      expect(tokens).toBeLessThanOrEqual(2_000);
      expect(user ?? 1).toBeGreaterThanOrEqual(0.95);
      expect(found ?? 1).toBeGreaterThanOrEqual(0.82);
      expect(state ?? 1).toBeGreaterThanOrEqual(0.6);
      expect(dump).toBeLessThanOrEqual(0.2);
      expect(text.split("\n").filter((line) => line.length > 600)).toEqual([]);
    }
  });

  it("is told by six summaries, each an update of the one before, as well as by one", async () => {
    const cut = cuts.at(-1)!;
    const history = historyOf(cut);
    const examination = new Examination(transcript, cut);
    let chained = "";
    for (let part = 0; part < 6; part++) {
      const [from, to] = [part, part + 1].map((place) => Math.floor((history.length * place) / 6));
      chained = await ask(history.slice(from, to), chained);
    }
    const once = examination.measure(await ask(history));
    const updated = examination.measure(chained);
    expect(updated.user ?? 1).toBeGreaterThanOrEqual((once.user ?? 1) - 0.05);
    expect(updated.found ?? 1).toBeGreaterThanOrEqual((once.found ?? 1) - 0.05);
  });

  it("is told in nothing but its own words", async () => {
    const history = historyOf(cuts.at(-1)!);
    const said = JSON.stringify(history).replace(/\\+n|\\+"|\s+/g, " ");
    const text = await ask(history);
    const quoted = [...text.matchAll(/"([^"]+)"/g)].flatMap((match) => match[1]!.split("…"));
    const pieces = quoted.map((piece) => piece.trim()).filter((piece) => piece.length > 24);
    expect(pieces.length).toBeGreaterThan(10);
    for (const piece of pieces)
      for (const sentence of piece.split(/(?<=[.。])\s/)) expect(said).toContain(sentence);
  });
});
