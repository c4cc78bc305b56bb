// Folders of many sessions: listed, and searched.
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fasterThan, within } from "../lib/goal.mjs";

/** 1,000 sessions, 600 MB. */
const manySessions = (bench) =>
  bench.sessions({ sessions: bench.count(1_000, 10), entries: bench.count(270, 10) });

const FIRST = 50;

const list = {
  name: "list",
  title: "List",
  async run(bench) {
    const folder = manySessions(bench);
    const pi = ["list", { folder }, { rounds: 2 }];
    const unknown = await bench.row({
      work: "the same, never listed before",
      tasks: { espalier: ["list", { folder, home: join(bench.scratch(), "none") }], pi },
      goals: ({ espalier, pi }) => [fasterThan("Pi", pi, espalier, 10)],
    });
    const known = await bench.row({
      work: "1,000 sessions (600 MB), listed before",
      tasks: { espalier: ["list", { folder, home: bench.scratch() }], limit: ["stat", { folder }], pi },
      goals: ({ espalier, pi }) => [fasterThan("Pi", pi, espalier, 200)],
    });
    const many = bench.sessions({ sessions: bench.count(10_000, 20), entries: 10 });
    const page = await bench.row({
      work: `10,000 sessions, the ${FIRST} newest`,
      tasks: {
        espalier: ["list", { folder: many, home: bench.scratch(), first: FIRST }],
        limit: ["stat", { folder: many }],
      },
      goals: ({ espalier, limit }) => [within("readdir + stat of all", espalier, limit, 10)],
    });
    return [known, { ...unknown, figures: { ...unknown.figures, limit: known.figures.limit } }, page];
  },
};

const search = {
  name: "search",
  title: "Search",
  async run(bench) {
    const folder = manySessions(bench);
    const files = readdirSync(folder).map((name) => join(folder, name));
    const row = (query, work) =>
      bench.row({
        work,
        tasks: { espalier: ["search", { files, query }], limit: ["grep", { files, query }] },
        rounds: 3,
        goals: ({ espalier, limit }) => [within("grep -c -i -F", espalier, limit, 4)],
        facts: ({ espalier, limit }) => ({ hits: espalier?.hits, lines: limit?.hits }),
      });
    return [
      await row("zebra crossing", "a text that is nowhere, in 600 MB"),
      await row("largest index timeout", "a rare text, in 600 MB"),
    ];
  },
};

export const lines = [list, search];
