import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { defineConfig } from "vitest/config";

const here = import.meta.dirname;
const grouped = ["packages", "apps"].flatMap((group) =>
  readdirSync(join(here, group)).map((name) => `${group}/${name}`),
);
const folders = [...grouped, "examples", "harness", "bench", "docs", "scripts"].filter((folder) =>
  folder === "scripts" ? true : existsSync(join(here, folder, "package.json")),
);

export default defineConfig({
  test: {
    // Far more than they take: a machine that has other work to do is no failure.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // A package may be young enough to have no tests yet.
    passWithNoTests: true,
    // Inline projects inherit these options; projects given as globs would not.
    projects: folders.map((folder) => ({
      extends: true as const,
      root: join(here, folder),
      test: { name: folder, include: ["test/**/*.test.{ts,tsx,mjs}", "src/**/*.test.{ts,tsx}"] },
    })),
  },
});
