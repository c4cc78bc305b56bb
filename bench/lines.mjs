// All lines, in the order of the table.
import { lines as folders } from "./lines/folders.mjs";
import { lines as hooks } from "./lines/hooks.mjs";
import { lines as imports } from "./lines/import.mjs";
import { lines as memory } from "./lines/memory.mjs";
import { lines as planning } from "./lines/planning.mjs";
import { lines as postgres } from "./lines/postgres.mjs";
import { lines as reading } from "./lines/reading.mjs";
import { lines as servers } from "./lines/servers.mjs";
import { lines as slow } from "./lines/slow.mjs";
import { lines as terminal } from "./lines/terminal.mjs";
import { lines as turns } from "./lines/turns.mjs";
import { lines as viewer } from "./lines/viewer.mjs";
import { lines as writing } from "./lines/writing.mjs";

/** @type {import("./lib/goal.mjs").Line[]} */
export const lines = [
  reading,
  memory,
  writing,
  planning,
  folders,
  turns,
  imports,
  hooks,
  postgres,
  servers,
  terminal,
  viewer,
  slow,
].flat();
