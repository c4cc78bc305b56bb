// Sessions written for this project, for what recorded ones may not be published of, or lack.
import { atlas } from "./atlas.mjs";
import { queue } from "./queue.mjs";
import { search } from "./search.mjs";
import { shop } from "./shop.mjs";

/** The written sessions by name, as messages. */
export const writtenSessions = { "codex code mode": queue, opencode: atlas, korean: shop, chinese: search };
