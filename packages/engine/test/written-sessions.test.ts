import { generateSummary } from "@espalier/compaction";
import { cutsOf, Examination, Transcript } from "@espalier/engine/eval";
import type { ContextMessage } from "@espalier/session-tree";
import { extractiveSummarizer } from "@espalier/summarizer";
import { describe, expect, it } from "vitest";
import { longSession, WRITTEN, writtenSession } from "./written-session.ts";

const summarizer = extractiveSummarizer();
const ask = async (messages: readonly ContextMessage[], previousSummary = "") =>
  (await generateSummary(messages, { summarizer, ...(previousSummary ? { previousSummary } : {}) })).text;

/** Returns a text without the marks that a summary writes in another way: quotation marks, bold marks, escapes. */
const withoutMarks = (text: string) =>
  text
    .replaceAll("&lt;", "<")
    .replaceAll("&amp;", "&")
    .replace(/[\\"'`*]/g, "")
    .replace(/\s+/g, " ")
    .trim();

describe.each(WRITTEN)("a written session: %s", (name) => {
  const messages = writtenSession(name);
  const transcript = new Transcript(messages);
  const { cuts } = cutsOf(transcript);
  const historyOf = ({ summarized }: (typeof cuts)[number]) => summarized.map(({ message }) => message);

  it("keeps its requests, findings and state in a readable summary", async () => {
    expect(cuts.length).toBeGreaterThanOrEqual(2);
    for (const cut of cuts) {
      const text = await ask(historyOf(cut));
      const { tokens, user, found, state, dump } = new Examination(cut).measure(text);
      expect(tokens).toBeLessThanOrEqual(2_000);
      expect(user ?? 1).toBeGreaterThanOrEqual(0.95);
      expect(found ?? 1).toBeGreaterThanOrEqual(0.82);
      expect(state ?? 1).toBeGreaterThanOrEqual(0.6);
      expect(dump).toBeLessThanOrEqual(0.2);
      expect(text.split("\n").filter((line) => line.length > 600)).toEqual([]);
    }
  });

  it("is covered by six successive summaries as well as by one", async () => {
    const cut = cuts.at(-1)!;
    const history = historyOf(cut);
    const examination = new Examination(cut);
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

  it("has a summary only of its own words", async () => {
    await expectOwnWords(historyOf(cuts.at(-1)!));
  });
});

describe.each(WRITTEN)("a long session with many requests: %s", (name) => {
  const messages = longSession(name);
  const transcript = new Transcript(messages);
  const { cuts } = cutsOf(transcript);
  const historyOf = ({ summarized }: (typeof cuts)[number]) => summarized.map(({ message }) => message);

  it("begins with the short session", () => {
    const short = writtenSession(name);
    expect(messages.slice(0, short.length)).toEqual(short);
    expect(messages.filter(({ role }) => role === "user").length).toBeGreaterThanOrEqual(45);
  });

  it("keeps most requests and the state in a readable summary", async () => {
    expect(cuts.length).toBeGreaterThanOrEqual(4);
    const measured = [];
    for (const cut of cuts) {
      const text = await ask(historyOf(cut));
      measured.push(new Examination(cut).measure(text));
      expect(text.split("\n").filter((line) => line.length > 600)).toEqual([]);
    }
    for (const { tokens, state, dump } of measured) {
      expect(tokens).toBeLessThanOrEqual(2_000);
      expect(state ?? 1).toBeGreaterThanOrEqual(0.6);
      expect(dump).toBeLessThanOrEqual(0.2);
    }
    // Whole lines of some turns carried 0.62 to 0.88; the beginnings of all requests carry 0.8 and more.
    const user = measured.reduce((sum, each) => sum + (each.user ?? 1), 0) / measured.length;
    expect(user).toBeGreaterThanOrEqual(0.75);
  });

  it("has a summary only of its own words", async () => {
    await expectOwnWords(historyOf(cuts.at(-1)!));
  });
});

async function expectOwnWords(history: readonly ContextMessage[]): Promise<void> {
  const said = withoutMarks(JSON.stringify(history).replace(/\\+n/g, " "));
  const text = await ask(history);
  // A line with an odd number of quotation marks has one in a command.
  const lines = text.split("\n").filter((line) => line.split('"').length % 2 === 1);
  const quoted = [...lines.join("\n").matchAll(/"([^"\n]+)"/g)].flatMap((match) => match[1]!.split("…"));
  const pieces = quoted.map((piece) => piece.trim()).filter((piece) => piece.length > 24);
  expect(pieces.length).toBeGreaterThan(10);
  for (const piece of pieces)
    for (const sentence of piece.split(/(?<=[.。])\s/))
      if (!said.includes(withoutMarks(sentence))) expect.fail(`not in the session: ${sentence}`);
}
