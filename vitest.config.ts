import { existsSync, readdirSync } from "node:fs";
import { availableParallelism } from "node:os";
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
 * Projects whose test files share one process, so that the sources are loaded once; loading takes longer than most of
 * these tests. Their tests do not change process state that another file could see. Helper files must not call
 * `afterAll` at their top level.
 */
const loadedOnce = new Set(["packages/compaction", "packages/engine"]);

/** Runs the slowest files first, so that no slow file is left alone at the end. */
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
    // The tests wait for other processes half of the time. By default one processor has no worker.
    maxWorkers: availableParallelism(),
    // Much longer than tests need, so that a busy machine is not a failure.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    globalSetup: join(here, "scripts/verify/temporary-folder.mjs"),
    // A new package may not have tests yet.
    passWithNoTests: true,
    // Inline projects inherit these options; projects given as globs do not.
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
