// Assembles the package for users from the doors, the command and the viewer, and packs the tarball that is published.
import { execFileSync, spawnSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, dirname, join, relative, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { bundleCommand } from "../command/bundle.mjs";
import { root, toolEnvironment } from "../tools.mjs";

const workshop = join(root, "packages/espalier");

/** JSON Schema of one line of the file format. */
const SCHEMA = "packages/session-tree/session-line.schema.json";

/**
 * Packages that users install themselves when they use what needs them, with their versions. Pi is not in the workspace's
 * manifest: pnpm would install its 159 MB here.
 *
 * @type {Record<string, string>}
 */
const PEERS = {
  ...JSON.parse(readFileSync(join(workshop, "package.json"), "utf8")).peerDependencies,
  "@earendil-works/pi-coding-agent": ">=0.58.0 <1.7.0",
};
const peers = Object.keys(PEERS).sort();

/**
 * @typedef {object} Packed
 * @property {string} name
 * @property {string} tarball absolute path
 * @property {number} size bytes
 * @property {string[]} files paths inside the package
 */

/**
 * Builds into an empty folder and packs, so that no file of a renamed source is left; turbo restores unchanged declarations.
 * Rejects when a source does not compile; the compiler has then written the reason to stderr.
 * @returns {Promise<Packed>}
 */
export async function packEspalier(/** @type {string} */ destination) {
  for (const name of readdirSync(join(root, "packages")))
    rmSync(join(root, "packages", name, "dist"), { recursive: true, force: true });
  const { status } = spawnSync("turbo", ["run", "build", "--output-logs=errors-only"], {
    cwd: root,
    env: toolEnvironment,
    stdio: ["ignore", 2, 2],
  });
  if (status !== 0) throw new Error("the declarations do not compile");
  const folder = mkdtempSync(join(tmpdir(), "espalier-pack-"));
  try {
    await assemble(folder);
    const options = ["pack", "--pack-destination", destination, "--json"];
    const told = execFileSync("npm", options, {
      cwd: folder,
      encoding: "utf8",
      stdio: ["ignore", "pipe", 2],
    });
    const [{ name, filename, size, files }] = JSON.parse(told);
    return {
      name,
      tarball: join(destination, filename),
      size,
      files: files.map((/** @type {{ path: string }} */ file) => file.path),
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * Writes the package into an empty folder: the doors and the command with shared chunks and source maps, rolled-up types,
 * the manifest and the notices. The declarations of every package must have been built before.
 * Rejects when a part does not compile.
 */
async function assemble(/** @type {string} */ folder) {
  const doors = doorsOf(workshop);
  const inputs = await bundleCommand(root, join(folder, "dist"), { sourcemap: true, doors, external: peers });
  for (const name of readdirSync(join(folder, "dist"), { recursive: true, encoding: "utf8" })) {
    const file = join(folder, "dist", name);
    if (name.endsWith(".map")) writeFileSync(file, relocatedMap(readFileSync(file, "utf8"), file));
  }
  writeFileSync(join(folder, "THIRD-PARTY-NOTICES.md"), licenceTexts(root, inputs));
  for (const path of ["README.md", "LICENSE", SCHEMA])
    copyFileSync(join(root, path), join(folder, basename(path)));
  writeFileSync(join(folder, "package.json"), JSON.stringify(manifestFor(Object.keys(doors)), null, 2));
  await rollTypes(Object.values(doors), join(folder, "dist"));
}

/** Returns a source map whose paths begin at the root of the repository, so that they name no folder of this machine. */
export function relocatedMap(/** @type {string} */ text, /** @type {string} */ file) {
  const map = JSON.parse(text);
  const sources = map.sources.map((/** @type {string} */ path) =>
    relative(root, resolve(dirname(file), path)),
  );
  return JSON.stringify({ ...map, sources });
}

/** Manifest of the package: without development fields, with all peers, and with doors that lead to built files. */
export function manifestFor(/** @type {string[]} */ doors) {
  const {
    devDependencies: _,
    scripts: __,
    ...manifest
  } = JSON.parse(readFileSync(join(workshop, "package.json"), "utf8"));
  const exports = doors.map((door) => [
    door === "index" ? "." : `./${door}`,
    { types: `./dist/${door}.d.ts`, default: `./dist/${door}.js` },
  ]);
  const schema = `./${basename(SCHEMA)}`;
  const { stdout } = spawnSync("git", ["remote", "get-url", "origin"], { cwd: root, encoding: "utf8" });
  return {
    ...manifest,
    ...repositoryOf(stdout?.trim() ?? ""),
    peerDependencies: Object.fromEntries(peers.map((peer) => [peer, PEERS[peer]])),
    peerDependenciesMeta: Object.fromEntries(peers.map((peer) => [peer, { optional: true }])),
    bin: { espalier: "dist/main.js" },
    exports: { ...Object.fromEntries(exports), [schema]: schema },
  };
}

/** Returns the repository's address from a remote, without credentials; empty for a local path. */
export function repositoryOf(/** @type {string} */ remote) {
  const [, host, path] =
    /^(?:https:\/\/|ssh:\/\/)?(?:[^@/]*@)?([\w-]+(?:\.[\w-]+)+)(?::\d+)?[:/](.+?)\/?$/.exec(remote) ?? [];
  if (host === undefined) return {};
  return { repository: { type: "git", url: `git+https://${host}/${path}`, directory: "packages/espalier" } };
}

/** @returns {Record<string, string>} the source of each door, by the name of its file in `dist` */
function doorsOf(/** @type {string} */ folder) {
  /** @type {Record<string, string>} */
  const doors = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")).exports;
  return Object.fromEntries(
    Object.entries(doors).map(([door, source]) => [
      door === "." ? "index" : door.slice("./".length),
      join(folder, source),
    ]),
  );
}

/**
 * Rolls the types up: one declaration file per door, and shared files, so that a class has the same type in all doors.
 */
async function rollTypes(/** @type {string[]} */ doors, /** @type {string} */ folder) {
  // These tools belong to the workshop package, because they need an older compiler than the rest of the workspace.
  const { resolve: find } = createRequire(join(workshop, "package.json"));
  const load = (/** @type {string} */ name) => import(pathToFileURL(find(name)).href);
  const [{ rollup }, { dts }] = await Promise.all([load("rollup"), load("rollup-plugin-dts")]);
  const bundle = await rollup({
    input: doors,
    external: [/^node:/, ...peers.map((peer) => new RegExp(`^${peer}(/|$)`))],
    plugins: [workspaceTypes, dts({ respectExternal: true, tsconfig: join(workshop, "tsconfig.json") })],
    onwarn: (/** @type {{ code?: string, message: string }} */ warning) => {
      // The compiler reads a type that a door uses without exporting it, so this warning is harmless.
      if (!/no public re-export/.test(warning.message)) throw new Error(warning.message);
    },
  });
  await bundle.write({
    dir: folder,
    entryFileNames: (/** @type {{ facadeModuleId: string }} */ { facadeModuleId }) =>
      relative(join(workshop, "src"), facadeModuleId).replace(/\.ts$/, ".d.ts"),
    chunkFileNames: "types-[hash].d.ts",
  });
  await bundle.close();
}

/** Resolves imports of a workspace package to its built declarations. */
const workspaceTypes = {
  name: "workspace-types",
  resolveId(/** @type {string} */ id, /** @type {string | undefined} */ importer) {
    const [, name, door = ""] = /^@espalier\/([^/]+)(\/.*)?$/.exec(id) ?? [];
    if (name !== undefined) {
      const folder = join(root, "packages", name);
      const { exports: doors } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
      return declarationOf(join(folder, doors[`.${door}`]).replace("/src/", "/dist/"));
    }
    if (importer === undefined || !/^\..*\.ts$/.test(id)) return null;
    const path = declarationOf(resolve(dirname(importer), id));
    return existsSync(path) ? path : null;
  },
};

const declarationOf = (/** @type {string} */ source) => source.replace(/(\.d)?\.ts$/, ".d.ts");

/**
 * Lists the licence of every bundled package from npm, as the licences require. Throws for a package without a licence.
 */
function licenceTexts(/** @type {string} */ root, /** @type {string[]} */ inputs) {
  const folders = new Set(
    inputs.flatMap((path) => path.match(/^.*node_modules\/(@[^/]+\/)?[^/]+(?=\/)/)?.[0] ?? []),
  );
  const texts = [...folders].map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8"));
    const files = readdirSync(join(root, folder)).filter((file) => /^(licen[cs]e|notice)/i.test(file));
    if (files.length === 0 && !license)
      throw new Error(`The bundled package ${name}@${version} has no licence.`);
    const texts = files.map((file) => readFileSync(join(root, folder, file), "utf8").trim());
    return `${name} ${version} (${license})\n\n${texts.join("\n\n")}\n`;
  });
  return `This program contains:\n\n${texts.sort().join("\n---\n\n")}`;
}
