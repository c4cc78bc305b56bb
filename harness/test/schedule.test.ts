import { serverPrograms } from "@espalier/store-postgres/testing";
import { expect, test } from "vitest";
import { Findings } from "../src/harness.ts";
import { scheduleStatements } from "../src/trials/schedule/statements.ts";
import { PATIENCE_MS, testShortForms } from "./bundled-program.ts";

testShortForms({
  schedule: {
    "append by two: states": 5_000,
    "upgrade by two: states": 20_000,
    "lease by two: states": 20_000,
    // Without a server there are no statements to order.
    ...(serverPrograms() && { "statements, upgrade: orders": 20, "statements, lease: orders": 20 }),
  },
});

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
