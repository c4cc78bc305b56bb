import { ids } from "./ids.ts";
import type { Migration } from "./migration.ts";
import { originals } from "./originals.ts";
import { tables } from "./tables.ts";
import { views } from "./views.ts";

/** All steps, in their order. */
export const migrations: readonly Migration[] = [tables, views, originals, ids];
