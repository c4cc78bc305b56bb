import { readdirSync } from "node:fs";
import { defineConfig } from "vitest/config";

// Inline projects inherit the root's options; project paths given as globs would not.
const folders = ["packages", "apps"].flatMap((group) => readdirSync(group).map((name) => `${group}/${name}`));

export default defineConfig({
  test: {
    testTimeout: 60_000,
    hookTimeout: 60_000,
    projects: [...folders, "examples"].map((root) => ({
      extends: true as const,
      root,
      test: { name: root, include: ["test/**/*.test.ts", "test/**/*.test.tsx", "src/**/*.test.ts"] },
    })),
  },
});
