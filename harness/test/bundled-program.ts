import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";
import { afterAll } from "vitest";

/** Where the program of the trials is bundled to, for those who start children, and folders for them to work in. */
export function bundledProgram(): { program: string; folder: () => string } {
  const work = mkdtempSync(join(tmpdir(), "espalier-harness-"));
  afterAll(() => rmSync(work, { recursive: true, force: true }));
  const program = join(work, "main.mjs");
  buildSync({
    entryPoints: [fileURLToPath(new URL("../src/main.ts", import.meta.url))],
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    outfile: program,
    banner: { js: "import{createRequire as r}from'node:module';const require=r(import.meta.url);" },
  });
  return { program, folder: () => mkdtempSync(join(work, "trial-")) };
}
