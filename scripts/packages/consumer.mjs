// An empty project of somebody else that installs the tarballs, imports every entry, compiles against them, runs every
// command, and runs what the READMEs show.
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../tools.mjs";
import { readmeExamples } from "./readme-examples.mjs";

/**
 * @typedef {object} Installer
 * @property {string} name
 * @property {string} command
 * @property {string[]} options
 */

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

/**
 * @param {string} folder made here
 * @param {import("./pack.mjs").Packed[]} packed
 * @param {Installer} installer
 * @param {import("./runtimes.mjs").Runtime[]} runtimes
 * @returns {string[]} one sentence per fault
 */
export function checkConsumer(folder, packed, installer, runtimes) {
  mkdirSync(folder);
  const tarballs = Object.fromEntries(packed.map(({ name, tarball }) => [name, `file:${tarball}`]));
  const manifest = {
    name: "consumer",
    private: true,
    type: "module",
    dependencies: tarballs,
  };
  write(folder, "package.json", JSON.stringify(manifest));
  // The packages ask each other for a version that is not published yet: npm takes the one beside it, pnpm has to be told.
  write(folder, "pnpm-workspace.yaml", JSON.stringify({ overrides: tarballs, pmOnFail: "ignore" }));
  const install = run(folder, installer.command, installer.options);
  if (install) return [`${installer.name} does not install the tarballs: ${install}`];

  const manifests = packed.map(({ name }) => readManifest(join(folder, "node_modules", name)));
  const entries = manifests.flatMap(({ name, exports: doors = {} }) =>
    Object.keys(doors)
      .filter((door) => !door.endsWith(".json"))
      .map((door) => name + door.slice(1)),
  );
  const commands = manifests.flatMap(({ name, bin = {} }) =>
    Object.values(typeof bin === "string" ? { [name]: bin } : bin).map((path) =>
      join(folder, "node_modules", name, path),
    ),
  );
  writeExamples(folder);
  return [
    ...checkTypes(folder, entries),
    ...runtimes.flatMap((runtime) =>
      checkRuntime(folder, runtime, entries, commands).map(
        (fault) => `installed by ${installer.name}, on Node ${runtime.version}: ${fault}`,
      ),
    ),
  ];
}

/** @returns {string[]} */
function checkRuntime(
  /** @type {string} */ folder,
  /** @type {import("./runtimes.mjs").Runtime} */ { node },
  /** @type {string[]} */ entries,
  /** @type {string[]} */ commands,
) {
  const imports = run(folder, node, ["import-all.mjs", ...entries]);
  const examples = run(folder, node, ["run-examples.mjs"]);
  return [
    ...(imports ? [imports] : []),
    ...(examples ? [examples] : []),
    ...commands.flatMap((command) => {
      const fault = run(folder, node, [command, "--help"]);
      return fault ? [`\`${command} --help\` fails: ${fault}`] : [];
    }),
  ];
}

/** What the READMEs show goes into files of its own, beside a script that runs each of them. */
function writeExamples(/** @type {string} */ folder) {
  for (const name of ["import-all.mjs", "run-examples.mjs"])
    copyFileSync(join(import.meta.dirname, "consumer", name), join(folder, name));
  mkdirSync(join(folder, "examples"));
  for (const { name, code } of readmeExamples()) write(folder, join("examples", name), code);
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
  };
  write(folder, "tsconfig.json", JSON.stringify({ compilerOptions, files: ["entries.ts"] }));
  const { stdout } = spawnSync(join(root, "node_modules/.bin/tsc"), ["-p", folder], {
    cwd: folder,
    encoding: "utf8",
  });
  // What others' declarations get wrong among themselves is not ours to mend.
  const ours = stdout.split("\n").filter((line) => /^(entries\.ts|node_modules\/@espalier\/)/.test(line));
  return ours.map((line) => `the published types do not compile: ${line}`);
}

/** @returns {string | undefined} what the command complained of, if it failed */
function run(/** @type {string} */ cwd, /** @type {string} */ command, /** @type {string[]} */ options) {
  // Started from an npm script, npm would otherwise take this workspace for the project.
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

/** @returns {Record<string, any>} */
function readManifest(/** @type {string} */ folder) {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
}

function write(/** @type {string} */ folder, /** @type {string} */ name, /** @type {string} */ text) {
  writeFileSync(join(folder, name), text);
}
