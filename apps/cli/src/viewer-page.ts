import { fileURLToPath } from "node:url";

/** The viewer's page, which is built into this program. */
export const VIEWER_PAGE = fileURLToPath(new URL("assets/viewer.html", import.meta.url));
