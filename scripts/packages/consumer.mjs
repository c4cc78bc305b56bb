// An empty project of somebody else that installs the tarballs, imports every entry, compiles against them and runs
// every command.
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../tools.mjs";

/** @returns {string[]} one sentence per fault */
export function checkConsumer(
  /** @type {string} */ folder,
  /** @type {import("./pack.mjs").Packed[]} */ packed,
) {
  mkdirSync(folder);
  const dependencies = Object.fromEntries(packed.map(({ name, tarball }) => [name, `file:${tarball}`]));
  write(
    folder,
    "package.json",
    JSON.stringify({ name: "consumer", private: true, type: "module", dependencies }),
  );
  const install = run(folder, "npm", [
    "install",
    "--prefer-offline",
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
  ]);
  if (install) return [`npm does not install the tarballs: ${install}`];

  const manifests = packed.map(({ name }) => readManifest(join(folder, "node_modules", name)));
  const entries = manifests.flatMap(({ name, exports: doors = {} }) =>
    Object.keys(doors)
      .filter((door) => !door.endsWith(".json"))
      .map((door) => name + door.slice(1)),
  );
  const commands = manifests.flatMap(({ name, bin = {} }) =>
    typeof bin === "string" ? [name.replace(/^@.*\//, "")] : Object.keys(bin),
  );
  return [
    ...entries.flatMap((entry) => {
      const fault = run(folder, process.execPath, ["--input-type=module", "-e", `await import("${entry}")`]);
      return fault ? [`${entry} cannot be imported once installed: ${fault}`] : [];
    }),
    ...checkTypes(folder, entries),
    ...commands.flatMap((command) => {
      const fault = run(folder, join(folder, "node_modules/.bin", command), ["--help"]);
      return fault ? [`\`${command} --help\` fails once installed: ${fault}`] : [];
    }),
  ];
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
  const { npm_config_local_prefix: _, ...env } = process.env;
  const { status, error, stdout, stderr } = spawnSync(command, options, {
    cwd,
    env,
    encoding: "utf8",
    timeout: 120_000,
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
