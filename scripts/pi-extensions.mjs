// Loads Pi's example extensions, one after the other, and prints what each does here as a table in Markdown:
//   node scripts/pi-extensions.mjs <a checkout of Pi, or its package> > docs/pi-extensions.md && npx biome format --write docs
// Nothing of Pi is kept in this repository; `docs/pi-extensions.md` is what this prints.
import { execFileSync, spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { root } from "./tools.mjs";

const START = join(root, "scripts/espalier.mjs");
const given = resolve(process.argv[2] ?? "");
const found = ["packages/coding-agent/examples/extensions", "examples/extensions", "."]
  .map((path) => join(given, path))
  .find((path) => existsSync(join(path, "custom-compaction.ts")));
if (process.argv[2] === undefined || found === undefined) {
  console.error("Name a checkout of Pi: node scripts/pi-extensions.mjs <folder>");
  process.exit(2);
}

/** Examples that need only sessions, and their behaviour here; `apps/cli/test/pi-examples.test.ts` tests it. */
const DOES = new Map(
  Object.entries({
    "auto-commit-on-exit":
      "commits what changed when the session closes, by the first line of the last answer",
    bookmark: "labels the last answer, and takes the label away",
    "confirm-destructive": "asks before a fork; no command here switches or clears a session",
    "custom-compaction":
      "writes the summary with a model that the program lends, else says that there is none",
    "dirty-repo-guard": "cancels a fork from a repository with changes, or asks where it can",
    "event-bus": "passes messages between extensions",
    "git-checkpoint": "keeps the files of each turn; a fork while the agent runs brings them back",
    "session-name": "names the session, and tells its name",
    "status-line": "shows the turn",
    "timed-confirm": "asks, for a limited time",
    "trigger-compact": "compacts by its command, and when a turn takes the context over 100,000 tokens",
  }),
);

const folder = found;
const home = mkdtempSync(join(tmpdir(), "espalier-pi-"));
try {
  const rows = readdirSync(folder).sort().flatMap(rowOf);
  const loaded = rows.filter(({ loads }) => loads).length;
  console.log(page(rows, loaded));
} finally {
  rmSync(home, { recursive: true });
}

/**
 * Runs the command on a session of its own, in a repository with a change that is not committed.
 * @param {string} name
 */
function rowOf(name) {
  const path = join(folder, name);
  const file = statSync(path).isDirectory() ? join(path, "index.ts") : path;
  if (!file.endsWith(".ts") || !existsSync(file)) return [];
  const place = join(home, name.replace(/\.ts$/, ""));
  mkdirSync(place);
  execFileSync("git", ["init", "-q", place]);
  const session = join(place, "session.jsonl");
  cpSync(join(root, "apps/cli/assets/demo-session.jsonl"), session);
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [START, "run", session, "--extension", file, "--json"],
    {
      cwd: place,
      encoding: "utf8",
      env: { ...process.env, ESPALIER_HOME: home, NO_COLOR: "1" },
      timeout: 60_000,
    },
  );
  const answer = JSON.parse(stdout.trim().split("\n").at(-1) || "{}");
  const clean = (/** @type {string} */ text) =>
    text.replaceAll(`${path}/`, "").replaceAll(file, name).replaceAll(home, "").trim();
  const said = [...(answer.error ? [answer.error.message] : []), ...stderr.split("\n")].map(clean);
  const source = readFileSync(file, "utf8");
  const hooks = [...source.matchAll(/\bpi\.on\(\s*"(\w+)"/g)].map(([, hook = ""]) => hook);
  const unknown = said.filter((line) => line.includes("a hook that does not exist here"));
  return [
    {
      name: name.replace(/\.ts$/, ""),
      loads: status === 0,
      commands: (answer.commands ?? []).map((/** @type {{ name: string }} */ command) => `/${command.name}`),
      hooks: [...new Set(hooks)].filter((hook) => !unknown.some((line) => line.includes(`"${hook}"`))),
      absent: [...new Set(unknown.map((line) => /"(\w+)"/.exec(line)?.[1] ?? ""))],
      said: [...new Set(said.filter((line) => line !== "" && !unknown.includes(line)))],
    },
  ];
}

/**
 * @param {ReturnType<typeof rowOf>} rows
 * @param {number} loaded
 */
function page(rows, loaded) {
  const cell = (/** @type {string} */ text) => text.replaceAll("|", "\\|").replaceAll("<", "&lt;");
  const code = (/** @type {string[]} */ names) => names.map((name) => `\`${name}\``).join(", ");
  const lines = rows.map(({ name, loads, commands, hooks, absent, said }) => {
    const isPart = absent.length > 0 || said.some((line) => line.includes("is not available here"));
    const isNothing = !loads || (isPart && hooks.length + commands.length === 0);
    const does =
      DOES.get(name) ?? (isNothing ? "nothing" : isPart ? "a part" : "its hooks and commands are called");
    const answers = loads ? [code(hooks), code(commands)].filter(Boolean).join("; ") : "";
    const missing = absent.length > 0 ? `never called: ${code(absent)}` : "";
    return `| \`${name}\` | ${loads ? "yes" : "no"} | ${does} | ${answers} | ${cell([missing, ...said].filter(Boolean).join(" · "))} |`;
  });
  return `# Pi's example extensions

Written by \`node scripts/pi-extensions.mjs <a checkout of Pi>\`, with Pi ${version()}. Each of its ${rows.length} examples is loaded unchanged,
without a model and without a terminal. ${loaded} load. Tests run those that need only sessions, with dialogs and without, on the
command line and in a run. The fourth column lists the hooks and commands that are called here; the last column lists the messages while the extension is loaded and the session opened. See [For authors of Pi extensions](guides/write-an-extension.md#for-authors-of-pi-extensions).

| example | loads | what it does here | hooks and commands that work | messages |
| --- | --- | --- | --- | --- |
${lines.join("\n")}
`;
}

function version() {
  for (const path of ["packages/coding-agent/package.json", "package.json"]) {
    const file = join(given, path);
    if (existsSync(file)) return JSON.parse(readFileSync(file, "utf8")).version;
  }
  return "of an unknown version";
}
