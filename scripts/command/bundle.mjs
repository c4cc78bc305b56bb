// The command line as one bundle: it needs no node_modules, starts faster than its sources would, and loads what only
// some commands need (the terminal's interface, a model's client, the loader of extensions) as chunks of their own.
import { chmodSync, cpSync, existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { buildViewerPage } from "./viewer-page.mjs";

/**
 * Bundles apps/cli/src/main.ts into a folder, with apps/cli/assets and the viewer's page beside it.
 * Whatever apps/cli lists as a dependency from npm stays outside and is installed with it; all else goes into the bundle.
 * Rejects when a source does not compile; esbuild has then said why on stderr.
 * @returns {Promise<string[]>} the bundled files, relative to `root`
 */
export async function bundleCommand(
  /** @type {string} */ root,
  /** @type {string} */ folder,
  /** @type {{ sourcemap: boolean }} */ { sourcemap },
) {
  const app = join(root, "apps/cli");
  const { dependencies = {}, version } = JSON.parse(readFileSync(join(app, "package.json"), "utf8"));
  const installed = Object.keys(dependencies).filter((name) => !dependencies[name].startsWith("workspace:"));
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: [join(app, "src/main.ts")],
    outdir: folder,
    bundle: true,
    splitting: true,
    metafile: true,
    sourcemap,
    format: "esm",
    platform: "node",
    target: "node20",
    jsx: "automatic",
    // Names stay whole, so that a stack can be read; they cost a fifth in size and nothing in time.
    minifyWhitespace: true,
    minifySyntax: true,
    define: {
      "process.env.NODE_ENV": '"production"',
      "process.env.ESPALIER_VERSION": JSON.stringify(version),
    },
    // Ink asks for its inspector only when DEV is set.
    external: [...installed, "react-devtools-core"],
    plugins: [jitiWithCompiler],
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
  return [...Object.keys(metafile.inputs), ...inputs];
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
