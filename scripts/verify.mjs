// Runs all checks of this repository in order, one line for each: npm test. `npm run verify -- --only house,types` runs
// some of them. The last line of stdout counts the tests and the other checks.
import { report, runCheck } from "./verify/checks.mjs";

/**
 * To add a check, add a line: its name, the command, and the minutes after which it counts as hung. Commands run in the
 * root folder with the workspace's tools on the PATH; exit code 0 is a pass.
 */
const checks = [
  { name: "install", command: "node scripts/setup.mjs", minutes: 5 },
  { name: "manifests", command: "sherif --fail-on-warnings", minutes: 1 },
  { name: "lint", command: "biome ci --error-on-warnings --colors=off .", minutes: 2 },
  { name: "types", command: "turbo run check --continue --output-logs=errors-only", minutes: 3 },
  { name: "scripts", command: "tsc -p scripts", minutes: 1 },
  { name: "house", command: "node scripts/check-house.mjs", minutes: 1 },
  { name: "unused", command: "knip", minutes: 2 },
  {
    name: "tests",
    command: "vitest run --no-color --reporter=default --reporter=./scripts/verify/count-reporter.mjs",
    minutes: 40,
    live: true,
  },
  { name: "build", command: "turbo run build --continue --output-logs=errors-only", minutes: 3 },
  { name: "packages", command: "node scripts/check-packages.mjs", minutes: 6 },
  {
    name: "reference",
    command: "npm run -s --prefix docs reference -- --emit none",
    minutes: 2,
  },
];

const only = process.argv[2] === "--only" ? (process.argv[3] ?? "").split(",") : undefined;
const unknown = only?.filter((name) => !checks.some((check) => check.name === name)) ?? [];
if (unknown.length > 0 || (process.argv.length > 2 && !only)) {
  console.error(
    `Usage: verify [--only name,name], with the names ${checks.map(({ name }) => name).join(", ")}.`,
  );
  process.exit(2);
}

const results = [];
for (const check of checks) {
  if (only && !only.includes(check.name)) continue;
  const result = await runCheck(check);
  results.push(result);
  // Without the tools no other check can run.
  if (check.name === "install" && result.failed > 0) break;
}
process.exitCode = report(results);
