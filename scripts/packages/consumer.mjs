// An empty project that installs the tarball, imports every door, compiles against it, runs the command and the demo,
// and runs the examples of the README. Neither `pg` nor an SDK of a provider is installed.
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { gzipSync } from "node:zlib";
import { buildSync, transformSync } from "esbuild";
import { root } from "../tools.mjs";

/** @typedef {{ name: string, command: string, options: string[] }} Installer */
/** @typedef {{ version: string, node: string }} Runtime a version of Node, and its program */

/** @type {Installer[]} */
export const installers = [
  {
    name: "npm",
    command: "npm",
    options: ["install", "--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund"],
  },
  {
    name: "pnpm",
    command: join(root, "node_modules/.bin/pnpm"),
    options: ["install", "--prefer-offline", "--ignore-scripts", "--reporter=silent"],
  },
];

/** Newest version of Node with long-term support. The npm package `node` contains the program. */
const NEWEST_LTS = "24.21.0";

/** @returns {Runtime[]} this Node and the newest; without the newest, and with a line about it, where it cannot be fetched */
export function runtimes() {
  const here = { version: process.versions.node, node: process.execPath };
  const given = [
    "exec",
    "--silent",
    "--yes",
    `--package=node@${NEWEST_LTS}`,
    "-c",
    "node -p process.execPath",
  ];
  const { status, stdout, stderr } = spawnSync("npm", given, { encoding: "utf8", timeout: 120_000 });
  const node = stdout?.trim();
  if (status === 0 && node) return [here, { version: NEWEST_LTS, node }];
  console.log(
    `skipped: Node ${NEWEST_LTS} could not be fetched (${stderr?.trim().split("\n").at(-1) ?? ""})`,
  );
  return [here];
}

/**
 * @param {string} folder made here
 * @param {import("./pack.mjs").Packed} packed
 * @param {Installer} installer
 * @param {Runtime[]} runtimes
 * @returns {string[]} one sentence per fault
 */
export function checkConsumer(folder, { name, tarball }, installer, runtimes) {
  mkdirSync(folder);
  const dependencies = { [name]: `file:${tarball}` };
  write(
    folder,
    "package.json",
    JSON.stringify({ name: "consumer", private: true, type: "module", dependencies }),
  );
  write(folder, "pnpm-workspace.yaml", JSON.stringify({ pmOnFail: "ignore" }));
  const install = run(folder, installer.command, installer.options);
  if (install) return [`${installer.name} does not install the tarball: ${install}`];

  const others = readdirSync(join(folder, "node_modules")).filter(
    (entry) => !/^\./.test(entry) && entry !== name,
  );
  const { exports: doors, bin } = readManifest(join(folder, "node_modules", name));
  const entries = Object.keys(doors).flatMap((door) =>
    door.endsWith(".json") ? [] : [name + door.slice(1)],
  );
  const commands = Object.values(bin).map((path) => join(folder, "node_modules", name, String(path)));
  writeExamples(folder);
  return [
    ...others.map(
      (other) => `${installer.name} installs ${other} with ${name}, which must not need another package.`,
    ),
    ...checkTypes(folder, entries),
    ...strayPeers(join(folder, "node_modules", name), doors),
    ...checkBundles(folder),
    ...runtimes.flatMap((runtime) =>
      checkRuntime(folder, runtime, entries, commands).map(
        (fault) => `installed by ${installer.name}, on Node ${runtime.version}: ${fault}`,
      ),
    ),
  ];
}

/** Doors that cannot be imported without their peer; missing-peers.mjs reads their messages. */
const NEEDS_PEER = /\/(postgres|adapters\/langgraph)$/;

function checkRuntime(
  /** @type {string} */ folder,
  /** @type {Runtime} */ { node },
  /** @type {string[]} */ entries,
  /** @type {string[]} */ commands,
) {
  const importing = entries.filter((entry) => !NEEDS_PEER.test(entry)).map((entry) => `import "${entry}";`);
  const attempts = [
    ["--input-type=module", "-e", importing.join("\n")],
    ["run-examples.mjs"],
    ["missing-peers.mjs"],
    ["two-doors.mjs"],
    ...commands.flatMap((command) => [
      [command, "--help"],
      [command, "demo"],
    ]),
  ];
  return attempts.flatMap((attempt) => {
    const fault = run(folder, node, attempt);
    return fault ? [`\`${attempt.map((word) => word.replace(folder, ".")).join(" ")}\` fails: ${fault}`] : [];
  });
}

/** Writes every TypeScript example of the README as JavaScript, and the scripts of this check. */
function writeExamples(/** @type {string} */ folder) {
  for (const name of ["run-examples.mjs", "missing-peers.mjs", "two-doors.mjs"])
    copyFileSync(join(import.meta.dirname, "consumer", name), join(folder, name));
  mkdirSync(join(folder, "examples"));
  const fences = readFileSync(join(root, "README.md"), "utf8").matchAll(/^```ts\n(.*?)^```/gms);
  for (const [at, [, example = ""]] of [...fences].entries()) {
    const { code } = transformSync(example, { loader: "ts", format: "esm", target: "node20" });
    write(folder, `examples/readme-${at + 1}.mjs`, code);
  }
}

function checkTypes(/** @type {string} */ folder, /** @type {string[]} */ entries) {
  const imports = entries.map(
    (entry, index) => `import * as entry${index} from "${entry}";\nexport { entry${index} };\n`,
  );
  write(folder, "entries.ts", imports.join(""));
  const compilerOptions = {
    strict: true,
    noEmit: true,
    module: "nodenext",
    target: "es2023",
    lib: ["es2024", "dom"],
    typeRoots: [join(root, "node_modules/@types")],
    types: ["node"],
    paths: {
      "@anthropic-ai/sdk": [join(root, "packages/engine/node_modules/@anthropic-ai/sdk/index.d.mts")],
      openai: [join(root, "packages/engine/node_modules/openai/index.d.mts")],
      ai: [join(root, "packages/engine/node_modules/ai/dist/index.d.ts")],
      // Peers of the adapters.
      "@anthropic-ai/claude-agent-sdk": [
        join(root, "packages/espalier/node_modules/@anthropic-ai/claude-agent-sdk/sdk.d.ts"),
      ],
      "@langchain/langgraph-checkpoint": [
        join(root, "packages/espalier/node_modules/@langchain/langgraph-checkpoint/dist/index.d.ts"),
      ],
      "@openai/agents": [join(root, "packages/espalier/node_modules/@openai/agents/dist/index.d.ts")],
    },
  };
  write(folder, "tsconfig.json", JSON.stringify({ compilerOptions, files: ["entries.ts"] }));
  const { stdout } = spawnSync(join(root, "node_modules/.bin/tsc"), ["-p", folder], {
    cwd: folder,
    encoding: "utf8",
  });
  // Errors in declarations of other packages are not ours.
  const ours = stdout.split("\n").filter((line) => /^(entries\.ts|node_modules\/espalier\/)/.test(line));
  return ours.map((line) => `the published types do not compile: ${line}`);
}

/**
 * Lists packages that a door's declarations need only through another file; users of the door cannot compile without
 * them.
 */
function strayPeers(
  /** @type {string} */ folder,
  /** @type {Record<string, string | { types?: string }>} */ doors,
) {
  const importsOf = (/** @type {string} */ file) =>
    [...readFileSync(file, "utf8").matchAll(/(?:from|import) ['"]([^'"]+)['"]/g)].map(([, id = ""]) => id);
  return Object.entries(doors).flatMap(([door, target]) => {
    if (typeof target === "string" || !target.types) return [];
    const own = join(folder, target.types);
    const files = new Set([own]);
    const packages = new Set();
    for (const file of files)
      for (const id of importsOf(file))
        if (id.startsWith(".")) files.add(join(dirname(file), id.replace(/\.js$/, ".d.ts")));
        else if (!id.startsWith("node:")) packages.add(id);
    for (const id of importsOf(own)) packages.delete(id);
    return [...packages].map(
      (id) => `the types of door ${door} need ${id}, which only another door imports.`,
    );
  });
}

/** Maximum compressed size in bytes of pages that use parts of the browser door. */
const BUNDLES = [
  { code: 'export { buildRequest } from "espalier/browser";', most: 5_000 },
  { code: 'export * from "espalier/browser";', most: 32_000 },
];

/** Bundles each example for a page, without Node's modules. */
function checkBundles(/** @type {string} */ folder) {
  return BUNDLES.flatMap(({ code, most }) => {
    const stdin = { contents: code, resolveDir: folder };
    try {
      const { outputFiles } = buildSync({
        stdin,
        bundle: true,
        minify: true,
        format: "esm",
        platform: "browser",
        write: false,
        logLevel: "silent",
      });
      const size = gzipSync(outputFiles[0]?.contents ?? "").length;
      return size > most ? [`\`${code}\` takes ${size} bytes in a page, ${most} at most.`] : [];
    } catch (error) {
      return [`\`${code}\` cannot be bundled for a page: ${error}`];
    }
  });
}

/** @returns {string | undefined} the complaint of a command that failed */
function run(/** @type {string} */ cwd, /** @type {string} */ command, /** @type {string[]} */ options) {
  // An npm script sets this variable, which would make npm use this workspace as the project.
  const { npm_config_local_prefix: _, ANTHROPIC_API_KEY: __, ...env } = process.env;
  const { status, error, stdout, stderr } = spawnSync(command, options, {
    cwd,
    env: { ...env, ESPALIER_HOME: join(cwd, "home"), CI: "true" },
    encoding: "utf8",
    timeout: 180_000,
  });
  if (status === 0) return undefined;
  const said = `${stderr}${stdout}`.trim();
  return error?.message ?? said.match(/^\w*Error\b.*$/m)?.[0] ?? said;
}

function readManifest(/** @type {string} */ folder) {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
}

function write(/** @type {string} */ folder, /** @type {string} */ name, /** @type {string} */ text) {
  writeFileSync(join(folder, name), text);
}
