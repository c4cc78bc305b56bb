// The viewer's page as one HTML file. Vite belongs to the viewer; it is asked for from there.
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

/** Builds apps/viewer's page into a folder, as index.html. */
export async function buildViewerPage(/** @type {string} */ root, /** @type {string} */ folder) {
  const app = join(root, "apps/viewer");
  const { resolve } = createRequire(join(app, "package.json"));
  const { build } = await import(
    pathToFileURL(join(resolve("vite/package.json"), "../dist/node/index.js")).href
  );
  await build({
    root: app,
    configFile: join(app, "vite.config.ts"),
    logLevel: "error",
    build: { outDir: folder },
  });
}
