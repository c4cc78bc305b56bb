import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

const here = import.meta.dirname;
const grouped = ["packages", "apps"].flatMap((group) =>
  readdirSync(join(here, group)).map((name) => `${group}/${name}`),
);
const folders = [...grouped, "examples", "harness", "bench", "docs", "scripts"].filter((folder) =>
  folder === "scripts" ? true : existsSync(join(here, folder, "package.json")),
);

/**
 * Their tests change nothing of the process that another file could meet: the sources are loaded once for all of them,
 * which takes longer than most of these tests. A file beside the tests must then not call `afterAll` by itself.
 */
const loadedOnce = new Set(["packages/compaction", "packages/engine"]);

/** Starts with the files that take minutes, so that none of them runs alone in the end. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isLong = ({ project }: TestSpecification) => project.name === "harness";
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    // Far more than they take: a machine that has other work to do is no failure.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    globalSetup: join(here, "scripts/verify/temporary-folder.mjs"),
    // A package may be young enough to have no tests yet.
    passWithNoTests: true,
    // Inline projects inherit these options; projects given as globs would not.
    projects: folders.map((folder) => ({
      extends: true as const,
      root: join(here, folder),
      test: {
        name: folder,
        include: ["test/**/*.test.{ts,tsx,mjs}", "src/**/*.test.{ts,tsx}"],
        isolate: !loadedOnce.has(folder),
      },
    })),
  },
});
