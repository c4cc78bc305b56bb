import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";
import { afterAll, describe, expect, test } from "vitest";
import { findingsOf } from "../src/harness.ts";
import { harnesses } from "../src/trials.ts";

/** Bundles the program of the trials, which starts itself as a child, and makes folders for them. */
export function bundledProgram(): { program: string; folder: () => string } {
  const work = mkdtempSync(join(tmpdir(), "espalier-harness-"));
  afterAll(() => rmSync(work, { recursive: true, force: true }));
  const program = join(work, "main.mjs");
  buildSync({
    entryPoints: [fileURLToPath(new URL("../src/main.ts", import.meta.url))],
    bundle: true,
    splitting: true,
    platform: "node",
    format: "esm",
    target: "node20",
    outdir: work,
    outExtension: { ".js": ".mjs" },
    banner: { js: "import{createRequire as r}from'node:module';const require=r(import.meta.url);" },
  });
  return { program, folder: () => mkdtempSync(join(work, "trial-")) };
}

/** Far more than they take, since they run beside other tests. */
export const PATIENCE_MS = 600_000;

/**
 * Tests of trials in their short form.
 * @param least figures that each must reach, lest it passes because it did nothing
 */
export function testShortForms(least: Record<string, Record<string, number>>): void {
  const { program, folder } = bundledProgram();
  describe("the short form of each trial finds nothing that breaks the contract", () => {
    for (const [name, figuresAtLeast] of Object.entries(least))
      test(
        name,
        async (context) => {
          const run = { seed: 1, isShort: true, store: "file", folder: folder(), program } as const;
          const { faults, figures, skipped } = await findingsOf(await harnesses[name]!(), run);
          // Before the skip: a trial that found a fault has not been skipped.
          expect(faults).toEqual([]);
          context.skip(skipped.length > 0 && Object.keys(figures).length === 0, skipped.join(" "));
          for (const [figure, count] of Object.entries(figuresAtLeast))
            expect(figures[figure], figure).toBeGreaterThanOrEqual(count);
        },
        PATIENCE_MS,
      );
  });
}
