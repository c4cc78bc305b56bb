// Bundles the command line, and for the published package the doors of the library, so that no node_modules are needed.
// Parts that only some calls use (the terminal, a model's client, the loader of extensions) are separate chunks.
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { buildViewerPage } from "./viewer-page.mjs";

/** Bundled CommonJS modules call `require`, which does not exist in an ES module. */
const banner = {
  js: "import{createRequire as bundleRequire}from'node:module';const require=bundleRequire(import.meta.url);",
};

/** Options of every bundle. */
const common = /** @satisfies {import("esbuild").BuildOptions} */ ({
  bundle: true,
  metafile: true,
  format: "esm",
  logLevel: "warning",
});

/**
 * Bundles apps/cli/src/main.ts into a folder, together with apps/cli/assets and the viewer's page.
 * Dependencies of apps/cli from npm and packages in `external` are not bundled; everything else is.
 * Rejects when a source does not compile; esbuild then writes the reason to stderr.
 * @param {string} root
 * @param {string} folder
 * @param {{ sourcemap: boolean, doors?: Record<string, string>, external?: string[] }} options
 *   doors: further entry points, by the name of the file each becomes; `browser` is without Node, a file a module
 * @returns {Promise<string[]>} the bundled files, relative to `root`
 */
export async function bundleCommand(
  root,
  folder,
  { sourcemap, doors: { browser, ...doors } = {}, external = [] },
) {
  const app = join(root, "apps/cli");
  const { dependencies = {} } = JSON.parse(readFileSync(join(app, "package.json"), "utf8"));
  const { version } = JSON.parse(readFileSync(join(root, "packages/espalier/package.json"), "utf8"));
  const installed = Object.keys(dependencies).filter((name) => !dependencies[name].startsWith("workspace:"));
  const { metafile } = await build({
    ...common,
    absWorkingDir: root,
    entryPoints: { main: join(app, "src/main.ts"), ...doors },
    outdir: folder,
    chunkNames: "chunk-[hash]",
    splitting: true,
    sourcemap,
    platform: "node",
    target: "node20",
    // Names are not shortened, so that stack traces are readable. They add a fifth to the size and cost no time.
    minifyWhitespace: true,
    minifySyntax: true,
    define: {
      "process.env.NODE_ENV": '"production"',
      "process.env.ESPALIER_VERSION": JSON.stringify(version),
    },
    external: [...installed, ...external],
    // Its main file loads its parts with its own `require`, which bundlers do not follow.
    alias: { "jsonc-parser": join(app, "node_modules/jsonc-parser/lib/esm/main.js") },
    plugins: [jitiWithCompiler, lateStringWidth],
    banner,
  });
  const main = join(folder, "main.js");
  const text = readFileSync(main, "utf8");
  if (!text.startsWith("#!")) writeFileSync(main, `#!/usr/bin/env node\n${text}`);
  chmodSync(main, 0o755);
  if (existsSync(join(app, "assets")))
    cpSync(join(app, "assets"), join(folder, "assets"), { recursive: true });
  const { page, inputs } = await buildViewerPage(root, join(folder, "assets"));
  renameSync(page, join(folder, "assets/viewer.html"));
  const inPi = await bundleForPi(root, folder, { external: [...installed, ...external] });
  const inBrowser =
    browser === undefined ? [] : await bundleForBrowsers(root, folder, browser, { sourcemap, external });
  return [...Object.keys(metafile.inputs), ...inputs, ...inPi, ...inBrowser];
}

/** Bundles the extension for Pi separately: with shared chunks, every start of the command would load more files. */
async function bundleForPi(
  /** @type {string} */ root,
  /** @type {string} */ folder,
  /** @type {{ external: string[] }} */ { external },
) {
  const { metafile } = await build({
    ...common,
    absWorkingDir: root,
    entryPoints: { "pi-extension": join(root, "apps/cli/src/agents/pi-extension.ts") },
    outdir: folder,
    chunkNames: "pi-[hash]",
    splitting: true,
    platform: "node",
    target: "node22",
    minify: true,
    define: { "process.env.NODE_ENV": '"production"' },
    // This extension does not load extensions of ours, and jiti with its compiler would be half of the bundle.
    external: ["jiti", ...external],
    plugins: [lateStringWidth],
    banner,
  });
  return Object.keys(metafile.inputs);
}

/**
 * Writes the browser door with one file per module, so that the bundler of a page can leave modules out; from one large
 * file it cannot remove statements that may have side effects. The files use nothing of Node.
 */
async function bundleForBrowsers(
  /** @type {string} */ root,
  /** @type {string} */ folder,
  /** @type {string} */ browser,
  /** @type {{ sourcemap: boolean, external: string[] }} */ { sourcemap, external },
) {
  const options = /** @satisfies {import("esbuild").BuildOptions} */ ({
    ...common,
    absWorkingDir: root,
    outdir: folder,
    chunkNames: "browser/[hash]",
    platform: "browser",
    external,
    target: "es2023",
    define: { "process.env.NODE_ENV": '"production"' },
    write: false,
  });
  const { metafile } = await build({ ...options, entryPoints: { browser } });
  const used = Object.values(metafile.outputs).flatMap(({ inputs }) => Object.entries(inputs));
  const modules = used.flatMap(([path, { bytesInOutput }]) => (bytesInOutput > 0 ? [path] : []));
  // As a separate entry, each module becomes a separate chunk. The entry files only import the chunks and are not
  // written.
  const entries = modules.map((path, at) => [`entry-${at}`, path]);
  const { outputFiles } = await build({
    ...options,
    entryPoints: { browser, ...Object.fromEntries(entries) },
    splitting: true,
    sourcemap,
    // White space is not removed, because this would also remove the comments that mark calls without side effects.
    minifySyntax: true,
  });
  mkdirSync(join(folder, "browser"), { recursive: true });
  for (const { path, contents } of outputFiles)
    if (!/[\\/]entry-\d+\.js(\.map)?$/.test(path)) writeFileSync(path, contents);
  return modules;
}

/**
 * jiti loads its compiler from its own folder, which a bundle does not have. As a plain `require`, the compiler is in
 * the bundle and is loaded only for a file that is not in jiti's cache (0.1 s faster than jiti's own static entry).
 */
const jitiWithCompiler = {
  name: "jiti-with-compiler",
  setup(/** @type {import("esbuild").PluginBuild} */ { onLoad }) {
    onLoad({ filter: /[\\/]jiti[\\/]lib[\\/]jiti\.mjs$/ }, ({ path }) => {
      const text = readFileSync(path, "utf8");
      const contents = text.replace("createRequire(import.meta.url)(", "require(");
      if (contents === text)
        throw new Error(`${path} loads its compiler in a new way; change scripts/command/bundle.mjs.`);
      return { contents };
    });
  },
};

/**
 * string-width compiles regular expressions of all emoji when it is loaded: 18 ms with ICU's data, a quarter of the
 * library's import time. The bundle loads it when a text is first measured.
 */
const lateStringWidth = {
  name: "late-string-width",
  setup(/** @type {import("esbuild").PluginBuild} */ { onResolve, onLoad }) {
    onResolve({ filter: /^string-width$/ }, ({ kind, resolveDir }) =>
      kind === "import-statement"
        ? { path: "string-width", namespace: "late", pluginData: resolveDir }
        : undefined,
    );
    onLoad({ filter: /.*/, namespace: "late" }, ({ pluginData: resolveDir }) => ({
      contents: `let stringWidth;
        export default (text, options) => (stringWidth ??= require("string-width").default)(text, options);`,
      resolveDir,
    }));
  },
};
