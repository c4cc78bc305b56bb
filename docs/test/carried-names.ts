import { readFileSync } from "node:fs";
import { join } from "node:path";

/** The root of the repository. */
export const root = join(import.meta.dirname, "../..");

/** A name that `origins.md` says is exported: `` `policies#TokenCounter.request` ``, with `= value` where it says that too. */
export interface CarriedName {
  /** As it is written, for messages. */
  text: string;
  /** What is imported, behind `@espalier/`: `policies`. */
  door: string;
  isType: boolean;
  /** The export, then members of it. */
  path: [string, ...string[]];
  /** What it has to be, as JSON. */
  value: string | undefined;
}

const table = readFileSync(join(root, "docs/origins.md"), "utf8")
  .split("\n")
  .filter((line) => line.startsWith("|"));
const quoted = [
  ...new Set(table.flatMap((line) => [...line.matchAll(/`([^`]+)`/g)].map(([, text]) => text!))),
];

const NAME = /^(type )?([a-z-]+(?:\/[a-z-]+)?)#([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?: = (.+))?$/;

/** Every exported name in the table, once. */
export const carriedNames: readonly CarriedName[] = quoted.flatMap((text) => {
  const [, type, door, path, value] = NAME.exec(text) ?? [];
  if (!door || !path) return [];
  const [name, ...members] = path.split(".") as [string, ...string[]];
  return [{ text, door, isType: type !== undefined, path: [name, ...members], value }];
});

/** What looks like an exported name and could not be read as one. */
export const unreadable = quoted.filter(
  (text) => text.includes("#") && !/^#+ /.test(text) && !NAME.test(text),
);

/** Every file and folder that the table names. */
export const carriedPaths = quoted.filter((text) =>
  /^(apps|docs|examples|packages|scripts)\/\S+$/.test(text),
);
