// Builds the viewer's page as index.html into the given folder, or into apps/viewer/dist.
import { join, resolve } from "node:path";
import { buildViewerPage } from "./command/viewer-page.mjs";
import { root } from "./tools.mjs";

await buildViewerPage(root, resolve(process.argv[2] ?? join(root, "apps/viewer/dist")));
