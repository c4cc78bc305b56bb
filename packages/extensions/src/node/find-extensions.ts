import { readdir, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { describeThrown, ExtensionError } from "../extension-error.ts";

/** Modules, but neither declarations (`.d.ts`) nor hidden files. */
const MODULE_NAME = /^(?!\.)(?!.*\.d\.ts$).+\.(?:ts|js|mjs)$/;

/**
 * The extensions of a folder as absolute paths in the order of their names: its `*.ts`, `*.js` and `*.mjs` files, and the
 * `index.ts` of its folders. Runs nothing. Links count as what they lead to. A folder that does not exist holds none;
 * one that cannot be read is an `ExtensionError` `unreadable-folder`.
 */
export async function findExtensions(folder: string): Promise<readonly string[]> {
  const home = resolve(folder);
  const found: string[] = [];
  for (const name of (await namesIn(home)).sort()) {
    const candidate = MODULE_NAME.test(name) ? join(home, name) : join(home, name, "index.ts");
    if (!name.startsWith(".") && (await isFile(candidate))) found.push(candidate);
  }
  return found;
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (cause) {
    if (codeOf(cause) === "ENOENT") return [];
    const message = `The extensions in ${folder} cannot be listed: ${describeThrown(cause)}; make it a readable folder.`;
    throw new ExtensionError("unreadable-folder", message, { cause });
  }
}

async function isFile(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isFile();
  } catch (error) {
    if (NOTHING_THERE.has(codeOf(error))) return false;
    const message = `${path} cannot be looked at: ${describeThrown(error)}; make it readable, or take it away.`;
    throw new ExtensionError("unreadable-folder", message, { cause: error });
  }
}

/** Nothing of that name; a file where a folder would have to be; a link that leads to itself. */
const NOTHING_THERE: ReadonlySet<unknown> = new Set(["ENOENT", "ENOTDIR", "ELOOP"]);

function codeOf(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}
