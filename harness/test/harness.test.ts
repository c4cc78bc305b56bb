import { describe, expect, test } from "vitest";
import { Findings, findingsOf } from "../src/harness.ts";
import { harnesses } from "../src/main.ts";
import { storeNames } from "../src/stores.ts";
import { scheduleStatements } from "../src/trials/schedule/statements.ts";
import { bundledProgram } from "./bundled-program.ts";

const { program, folder } = bundledProgram();
const seed = 1;

/** Far more than they take, since they run beside other tests. */
const PATIENCE_MS = 600_000;

/** What the short form of each trial must have done at least, lest it passes because it did nothing. */
const LEAST: Record<string, Record<string, number>> = {
  kill: { kills: 12 },
  conversation: { thresholds: 3, overflows: 1, kills: 40, "went on to the end": 1, "killed in a row": 5 },
  cut: { files: 60 },
  flip: { files: 150, named: 50 },
  // A kill costs the entry that was under way, and a slow machine has time for many kills.
  share: { "acked, 1 KB": 200, "acked, 600 KB to 3 MB": 12 },
  lease: { rounds: 40 },
  room: { refused: 150, drained: 120, "removed and replaced": 20, "ulimit -f: refused": 10 },
  power: { cuts: 20, "acked at fsync": 100 },
  calls: { "calls, v3": 150, "calls, v1": 150, "calls, ids": 300, scenarios: 300 },
  schedule: {
    "append by two: states": 5_000,
    "upgrade by two: states": 20_000,
    "lease by two: states": 20_000,
  },
  fuzz: { files: 250, "with issues": 120 },
  lives: {
    lives: 20,
    requests: 250,
    approvals: 15,
    crashes: 12,
    forks: 4,
    hides: 12,
    compactions: 3,
    "changes of model": 10,
    "in a loop of tools": 8,
    "navigations with a summary": 5,
  },
};

describe("the short form of each trial finds nothing that breaks the contract", () => {
  for (const [name, least] of Object.entries(LEAST))
    test(
      name,
      async () => {
        const run = { seed, isShort: true, store: "file", folder: folder(), program } as const;
        const { faults, figures } = await findingsOf(harnesses[name]!, run);
        expect(faults).toEqual([]);
        for (const [figure, count] of Object.entries(least))
          expect(figures[figure], figure).toBeGreaterThanOrEqual(count);
      },
      PATIENCE_MS,
    );
});

test(
  "outage: what was synced survives the power of a real file system (skipped where none can be mounted)",
  async (context) => {
    const run = { seed, isShort: true, store: "file", folder: folder(), program } as const;
    const { faults, figures, skipped } = await findingsOf(harnesses["outage"]!, run);
    context.skip(skipped.length > 0, skipped.join(" "));
    expect(faults).toEqual([]);
    expect(figures["cuts"]).toBe(6);
    expect(figures["acked at fsync"]).toBeGreaterThan(0);
  },
  PATIENCE_MS,
);

test(
  "postgres: nothing is lost or twice when servers crash and clients are killed (skipped where there is no server)",
  async (context) => {
    const run = { seed, isShort: true, store: "file", folder: folder(), program } as const;
    const { faults, figures, skipped } = await findingsOf(harnesses["postgres"]!, run);
    context.skip(skipped.length > 0, skipped.join(" "));
    expect(faults).toEqual([]);
    expect(figures).toMatchObject({
      "crashes of the server": 2,
      "killed clients": 2,
      "entries of many writers": 320,
    });
    expect(figures["acknowledged"]).toBeGreaterThan(10);
  },
  PATIENCE_MS,
);

test(
  "a lease in a database that any client takes is found by searching for an order of statements (skipped where there is no server)",
  async (context) => {
    const findings = new Findings();
    await scheduleStatements(true, findings, (text) =>
      text.replace(
        /WHERE held\.owner[\s\S]*?RETURNING/,
        "WHERE make_interval(secs => $8) IS NOT NULL RETURNING",
      ),
    );
    context.skip(findings.skipped.length > 0, findings.skipped.join(" "));
    expect(findings.faults[0]).toContain("Two clients hold the lease.");
    expect(findings.faults.every((fault) => fault.startsWith("statements, lease:"))).toBe(true);
  },
  PATIENCE_MS,
);

test(
  "each of seven broken stores is caught, and each by searching for an order of steps",
  async () => {
    const run = { seed, isShort: true, store: "file", folder: folder(), program } as const;
    const { faults, figures } = await findingsOf(harnesses["broken"]!, run);
    expect(faults).toEqual([]);
    expect(Object.keys(figures).length).toBe(5 + storeNames.length - 1);
  },
  PATIENCE_MS,
);
