// The viewer's page: apps/viewer/dist/index.html.
import { join } from "node:path";
import { buildViewerPage } from "./command/viewer-page.mjs";
import { root } from "./tools.mjs";

await buildViewerPage(root, join(root, "apps/viewer/dist"));
