// Builds the viewer's page as one HTML file. Vite is a dependency of the viewer, so it is imported from there.
import { createRequire } from "node:module";
import { join, relative } from "node:path";
import { pathToFileURL } from "node:url";

/**
 * Builds apps/viewer's page into a folder.
 * @returns {Promise<{ page: string, inputs: string[] }>} the page, and the files it was made of, relative to `root`
 */
export async function buildViewerPage(/** @type {string} */ root, /** @type {string} */ folder) {
  const app = join(root, "apps/viewer");
  const { resolve } = createRequire(join(app, "package.json"));
  const vite = join(resolve("vite/package.json"), "../dist/node/index.js");
  const { build } = await import(pathToFileURL(vite).href);
  /** @type {string[]} */
  const inputs = [];
  const listing = {
    name: "listing",
    /** @this {{ getModuleIds(): Iterable<string> }} */
    generateBundle() {
      // Virtual modules begin with a zero byte.
      for (const id of this.getModuleIds()) if (!id.startsWith("\0")) inputs.push(relative(root, id));
    },
  };
  await build({
    root: app,
    configFile: join(app, "vite.config.ts"),
    logLevel: "error",
    plugins: [listing],
    build: { outDir: folder },
  });
  return { page: join(folder, "index.html"), inputs };
}
