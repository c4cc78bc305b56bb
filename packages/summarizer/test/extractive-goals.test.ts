import type { ContextMessage } from "@espalier/session-tree";
import { describe, expect, it } from "vitest";
import { ask } from "./extractive-sessions.ts";

interface Cut {
  history: ContextMessage[];
}
interface Measures {
  tokens: number;
  user?: number;
  found?: number;
  state?: number;
  dump: number;
}
const bench = (path: string) => import(new URL(`../../../bench/${path}`, import.meta.url).href);
const { writtenSessions } = (await bench("sessions/written-sessions.mjs")) as {
  writtenSessions: Record<string, ContextMessage[]>;
};
const { cutsOf, measureSummary } = (await bench("lib/summary-measures.mjs")) as {
  cutsOf(messages: readonly ContextMessage[], keep: number): Cut[];
  measureSummary(summary: string, cut: Cut): Measures;
};

describe.each(Object.entries(writtenSessions))("a written session: %s", (_name, messages) => {
  const cuts = cutsOf(messages, 20_000);

  it("is carried by a readable summary: what was asked, what was found, the state", async () => {
    expect(cuts.length).toBeGreaterThanOrEqual(3);
    for (const cut of cuts) {
      const { text } = await ask(cut.history);
      const { tokens, user = 1, found = 1, state = 1, dump } = measureSummary(text, cut);
      expect(tokens).toBeLessThanOrEqual(2_000);
      expect(user).toBeGreaterThanOrEqual(0.95);
      expect(found).toBeGreaterThanOrEqual(0.82);
      expect(state).toBeGreaterThanOrEqual(0.6);
      expect(dump).toBeLessThanOrEqual(0.2);
      expect(text.split("\n").filter((line) => line.length > 600)).toEqual([]);
    }
  });

  it("is told by six summaries, each an update of the one before, as well as by one", async () => {
    const { history } = cuts.at(-1)!;
    const cut = cuts.at(-1)!;
    let chained = "";
    for (let part = 0; part < 6; part++) {
      const [from, to] = [part, part + 1].map((place) => Math.floor((history.length * place) / 6));
      const { text } = await ask(history.slice(from, to), chained === "" ? {} : { previousSummary: chained });
      chained = text;
    }
    const once = measureSummary((await ask(history)).text, cut);
    const updated = measureSummary(chained, cut);
    expect(updated.user ?? 1).toBeGreaterThanOrEqual((once.user ?? 1) - 0.05);
    expect(updated.found ?? 1).toBeGreaterThanOrEqual((once.found ?? 1) - 0.05);
  });

  it("is told in nothing but its own words", async () => {
    const history = cuts.at(-1)!.history;
    const said = JSON.stringify(history).replace(/\\+n|\\+"|\s+/g, " ");
    const { text } = await ask(history);
    const quoted = [...text.matchAll(/"([^"]+)"/g)].flatMap((match) => match[1]!.split("…"));
    const pieces = quoted.map((piece) => piece.trim()).filter((piece) => piece.length > 24);
    expect(pieces.length).toBeGreaterThan(10);
    for (const piece of pieces)
      for (const sentence of piece.split(/(?<=[.。])\s/)) expect(said).toContain(sentence);
  });
});
