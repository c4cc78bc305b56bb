// Runs Pi's own tests of sessions and compaction with `espalier/adapters/pi` in place of Pi's modules:
//   node scripts/pi-tests.mjs <a checkout of Pi, its dependencies installed and its packages built>
// It prints what passed, and fails for a test that fails without a reason in the list below. Nothing of Pi is kept in this
// repository; docs/pi-adapter.md has the table of the tests that differ.
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { root } from "./tools.mjs";

const given = resolve(process.argv[2] ?? "");
const folder = [join(given, "packages/coding-agent"), given].find((each) => existsSync(join(each, "test")));
if (process.argv[2] === undefined || folder === undefined) {
  console.error("Name a checkout of Pi: node scripts/pi-tests.mjs <folder>");
  process.exit(2);
}
const adapter = join(root, "packages/espalier/src/adapters/pi.ts");

/** Names of modules of Pi that the adapter has. Those it lacks stay Pi's. */
const COMPACTION = [
  ...["DEFAULT_COMPACTION_SETTINGS", "compact", "estimateTokens", "findCutPoint"],
  ...["prepareCompaction", "shouldCompact"],
];
const TAKEN = {
  "src/core/session-manager.ts": [
    ...["CURRENT_SESSION_VERSION", "SessionManager", "buildContextEntries", "buildSessionContext"],
    ...["buildSessionProjection", "getLatestCompactionEntry", "migrateSessionEntries", "parseSessionEntries"],
  ],
  "src/core/compaction/compaction.ts": COMPACTION,
  "src/core/compaction/branch-summarization.ts": ["collectEntriesForBranchSummary"],
  "src/core/compaction/utils.ts": ["serializeConversation"],
  "src/core/compaction/index.ts": [...COMPACTION, "collectEntriesForBranchSummary", "serializeConversation"],
};

/** Selects tests of these modules, and of hosts that receive a manager. */
const isOfThese = (/** @type {string} */ path) =>
  /^(session-manager\/|compaction|agent-session|session-info|suite\/agent-session|session-file)/.test(path);
const tests = readdirSync(join(folder, "test"), { recursive: true, encoding: "utf8" })
  .filter((path) => path.endsWith(".test.ts") && isOfThese(path))
  .sort();

/** Tests that fail with the adapter, and the reason; docs/pi-adapter.md describes them. */
const DIFFERENT = new Map(
  Object.entries({
    "AgentSession auto-compaction queue resume should resume after threshold compaction when only agent-level queued messages exist":
      "its mock keeps an entry that is not in the session, which is refused",
    "serializeConversation should truncate long tool results": "the transcript is escaped data between tags",
    "serializeConversation should not truncate short tool results":
      "the transcript is escaped data between tags",
    "migrateSessionEntries should add id/parentId to v1 entries":
      "ids have 12 characters and are the same each time",
    "SessionManager.setSessionFile with corrupted files truncates and rewrites file without valid header":
      "no file is emptied; newer versions of Pi refuse it too",
    "SessionManager.setSessionFile with corrupted files subsequent loads of recovered file work correctly":
      "no file is emptied; newer versions of Pi refuse it too",
    "createBranchedSession does not duplicate entries when forking from first user message":
      "the file is there with the first prompt, so that a crash keeps it; newer versions of Pi do so too",
  }),
);

const place = mkdtempSync(join(tmpdir(), "espalier-pi-tests-"));
try {
  const files = run(tests, TAKEN);
  const surprising = files.filter((file) => surprises(file).length > 0).map(({ file }) => file);
  // Tests that also fail with Pi's own modules are ignored: they wait for milliseconds, or for another version of a
  // library.
  const bare = surprising.length > 0 ? run(surprising, {}) : [];
  const onPi = new Set(bare.flatMap((file) => failures(file)));
  const unexpected = files.flatMap((file) => tellFile(file, onPi));
  const all = files.flatMap((file) => file.tests);
  const count = (/** @type {string} */ status) => all.filter((test) => test.status === status).length;
  console.log(
    `${count("passed")} passed, ${count("failed")} differ, ${count("skipped")} need a key of a provider.`,
  );
  if (unexpected.length > 0) {
    console.error(unexpected.join("\n"));
    process.exitCode = 1;
  }
} finally {
  rmSync(place, { recursive: true });
}

/** @typedef {{ file: string, message: string, tests: { name: string, status: string, why: string }[] }} TestFile */

/** Returns the names of a file's failed tests. */
function failures(/** @type {TestFile} */ { tests: told }) {
  return told.filter(({ status }) => status === "failed").map(({ name }) => name);
}

/** Returns results of a file that differ from the list of reasons. */
function surprises(/** @type {TestFile} */ { file, message, tests: told }) {
  if (told.length === 0) return [{ name: file, text: `${file} could not be run: ${message}` }];
  return told.flatMap(({ name, status, why }) => {
    const isListed = DIFFERENT.has(name);
    if (status === "failed" && !isListed) return [{ name, text: `${file}: ${name}: ${why}` }];
    return status === "passed" && isListed
      ? [{ name, text: `${name} passes now; take it off the list` }]
      : [];
  });
}

/** Prints a line for a file, and the reason of each test that differs. @returns {string[]} what was not expected */
function tellFile(/** @type {TestFile} */ file, /** @type {Set<string>} */ onPi) {
  const passed = file.tests.filter(({ status }) => status === "passed").length;
  console.log(`${file.file}: ${passed} of ${file.tests.length} passed`);
  for (const name of failures(file)) {
    const reason = DIFFERENT.get(name) ?? (onPi.has(name) ? "fails with Pi's own modules too" : undefined);
    if (reason) console.log(`  differs: ${name}: ${reason}`);
  }
  return surprises(file).flatMap(({ name, text }) => (onPi.has(name) ? [] : [text]));
}

/**
 * @param {string[]} paths
 * @param {Record<string, string[]>} taken
 * @returns {TestFile[]}
 */
function run(paths, taken) {
  const config = join(place, "vitest.config.mjs");
  const output = join(place, "report.json");
  rmSync(output, { force: true });
  writeFileSync(config, configOf(paths, taken, output));
  const vitest = join(root, "node_modules/vitest/vitest.mjs");
  const { status, stderr } = spawnSync(process.execPath, [vitest, "run", "--config", config], {
    cwd: folder,
    encoding: "utf8",
    env: { ...process.env, PI_CODING_AGENT_DIR: join(place, "agent"), NO_COLOR: "1" },
  });
  if (!existsSync(output)) throw new Error(`vitest ended with ${status}: ${stderr}`);
  const { testResults } = JSON.parse(readFileSync(output, "utf8"));
  return testResults.map((/** @type {any} */ file) => ({
    file: relative(join(folder ?? "", "test"), file.name),
    message: file.message?.slice(0, 300),
    tests: file.assertionResults.map((/** @type {any} */ each) => ({
      name: each.fullName,
      status: each.status,
      why: each.failureMessages?.[0]?.split("\n").slice(0, 3).join(" "),
    })),
  }));
}

/** Vitest configuration in which tests of Pi import the adapter in place of Pi's modules. */
function configOf(
  /** @type {string[]} */ paths,
  /** @type {Record<string, string[]>} */ taken,
  /** @type {string} */ output,
) {
  return `import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
const folder = ${JSON.stringify(folder)};
const taken = new Map(Object.entries(${JSON.stringify(taken)}).map(([path, names]) => [resolve(folder, path), names]));
const ours = "?espalier";
export default {
  root: folder,
  plugins: [{
    name: "espalier",
    enforce: "pre",
    resolveId(source, importer) {
      if (!importer || !source.startsWith(".")) return undefined;
      const path = resolve(dirname(importer), source.replace(/\\.js$/, ".ts"));
      if (!importer.startsWith(folder + "/test/") || !taken.has(path)) return undefined;
      // A test that puts a mock in the place of a module means Pi's.
      const isMocked = path.includes("/compaction/") && readFileSync(importer, "utf8").includes('vi.mock("../src/core/compaction');
      return isMocked ? undefined : path + ours;
    },
    load(id) {
      if (!id.endsWith(ours)) return undefined;
      const path = id.slice(0, -ours.length);
      return \`export * from \${JSON.stringify(path)};\\nexport { \${taken.get(path).join(", ")} } from ${JSON.stringify(adapter)};\`;
    },
  }],
  test: {
    globals: true,
    testTimeout: 60_000,
    retry: 2,
    maxWorkers: 1,
    include: ${JSON.stringify(paths.map((path) => `test/${path}`))},
    reporters: [["json", { outputFile: ${JSON.stringify(output)} }]],
  },
};
`;
}
