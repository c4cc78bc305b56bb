// The command line as one bundle, and the doors of the library beside it where they are published: no node_modules are
// needed. Parts that only some calls need (the terminal, a model's client, the loader of extensions) are separate chunks.
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { buildViewerPage } from "./viewer-page.mjs";

/**
 * Bundles apps/cli/src/main.ts into a folder, with apps/cli/assets and the viewer's page beside it.
 * Dependencies of apps/cli from npm, and what `external` names, stay outside; everything else goes into the bundle.
 * Rejects when a source does not compile; esbuild has then written the reason to stderr.
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
    absWorkingDir: root,
    entryPoints: { main: join(app, "src/main.ts"), ...doors },
    outdir: folder,
    chunkNames: "chunk-[hash]",
    bundle: true,
    splitting: true,
    metafile: true,
    sourcemap,
    format: "esm",
    platform: "node",
    target: "node20",
    // Names stay whole, so that a stack can be read; they cost a fifth in size and nothing in time.
    minifyWhitespace: true,
    minifySyntax: true,
    define: {
      "process.env.NODE_ENV": '"production"',
      "process.env.ESPALIER_VERSION": JSON.stringify(version),
    },
    external: [...installed, ...external],
    // Its main file finds its parts with a `require` of its own, which no bundler follows.
    alias: { "jsonc-parser": join(app, "node_modules/jsonc-parser/lib/esm/main.js") },
    plugins: [jitiWithCompiler, lateStringWidth],
    // Bundled CommonJS calls require, which an ES module does not have.
    banner: {
      js: "import{createRequire as bundleRequire}from'node:module';const require=bundleRequire(import.meta.url);",
    },
    logLevel: "warning",
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

/** Bundles the extension for Pi apart: with shared chunks the command would load more files at each start. */
async function bundleForPi(
  /** @type {string} */ root,
  /** @type {string} */ folder,
  /** @type {{ external: string[] }} */ { external },
) {
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: { "pi-extension": join(root, "apps/cli/src/agents/pi-extension.ts") },
    outdir: folder,
    chunkNames: "pi-[hash]",
    bundle: true,
    splitting: true,
    metafile: true,
    format: "esm",
    platform: "node",
    target: "node22",
    minify: true,
    define: { "process.env.NODE_ENV": '"production"' },
    // It loads no extensions of ours, and jiti with its compiler is half of the bundle.
    external: ["jiti", ...external],
    plugins: [lateStringWidth],
    banner: {
      js: "import{createRequire as bundleRequire}from'node:module';const require=bundleRequire(import.meta.url);",
    },
    logLevel: "warning",
  });
  return Object.keys(metafile.inputs);
}

/**
 * Writes the door of browsers as one file a module, so that the bundler of a page takes the modules it needs and leaves the
 * others: within one large file it must keep every statement that could have an effect. Nothing of Node is in them.
 */
async function bundleForBrowsers(
  /** @type {string} */ root,
  /** @type {string} */ folder,
  /** @type {string} */ browser,
  /** @type {{ sourcemap: boolean, external: string[] }} */ { sourcemap, external },
) {
  /** @type {import("esbuild").BuildOptions} */
  const options = {
    absWorkingDir: root,
    outdir: folder,
    chunkNames: "browser/[hash]",
    bundle: true,
    format: "esm",
    platform: "browser",
    external,
    target: "es2023",
    define: { "process.env.NODE_ENV": '"production"' },
    logLevel: "warning",
  };
  const { metafile } = await build({ ...options, entryPoints: { browser }, metafile: true, write: false });
  const used = Object.values(metafile.outputs).flatMap(({ inputs }) => Object.entries(inputs));
  const modules = used.flatMap(([path, { bytesInOutput }]) => (bytesInOutput > 0 ? [path] : []));
  // As an entry of its own each module becomes a chunk of its own; the entries, which only name the chunks, are left out.
  const entries = modules.map((path, at) => [`entry-${at}`, path]);
  const { outputFiles } = await build({
    ...options,
    entryPoints: { browser, ...Object.fromEntries(entries) },
    splitting: true,
    sourcemap,
    write: false,
    // White space stays: without it the marks of calls without effects go too, and a page carries what it does not use.
    minifySyntax: true,
  });
  mkdirSync(join(folder, "browser"), { recursive: true });
  for (const { path, contents } of outputFiles)
    if (!/[\\/]entry-\d+\.js(\.map)?$/.test(path)) writeFileSync(path, contents);
  return modules;
}

/**
 * jiti looks for its compiler beside its own file, where a bundle has none. As a plain require the compiler travels in
 * the bundle and is still loaded only when a file is not in jiti's cache (0.1 s less than jiti's own static entry).
 */
const jitiWithCompiler = {
  name: "jiti-with-compiler",
  setup(/** @type {import("esbuild").PluginBuild} */ { onLoad }) {
    onLoad({ filter: /[\\/]jiti[\\/]lib[\\/]jiti\.mjs$/ }, ({ path }) => {
      const text = readFileSync(path, "utf8");
      const contents = text.replace("createRequire(import.meta.url)(", "require(");
      if (contents === text)
        throw new Error(`${path} loads its compiler in a new way: adapt scripts/command/bundle.mjs.`);
      return { contents };
    });
  },
};

/**
 * string-width compiles patterns of all emoji when it is loaded: 18 ms with ICU's data, a quarter of the import of the
 * library. In the bundle it is loaded when a text is measured; a module that is required is run at its first require.
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
