import { chmod, lstat, readdir, readFile, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { describeThrown, ExtensionError, type ExtensionSetup, HANDLER_LIMIT_MS } from "../hook.ts";
import { callWithin, systemClock } from "../run.ts";

/** Options of loading a module. */
export interface LoadExtensionOptions {
  /** Modules of the host that the extension gets when it imports these names: `{"@espalier/engine": namespace}`. */
  virtualModules?: Record<string, unknown>;
  /**
   * Folder for translated files. With it, the first TypeScript file takes 0.1 s instead of 0.3 s. Its files are
   * executed, so it must be writable only for its owner. Default: translations are not stored.
   */
  cacheDir?: string;
}

/**
 * Loads a TypeScript or JavaScript module, and the TypeScript files that it imports, as they are on disk now. (Node.js
 * loads imported JavaScript and packages, most of them once in a process.) Returns its default export, for
 * `ExtensionHost.register`. Loading runs code: the caller decides before whether the file is trusted. Throws
 * `ExtensionError` with the file as owner: `not-found` (also for a folder), `syntax-error`, `foreign-package`,
 * `load-failed`, `load-timed-out` (after 10 s), `no-default-export` (also when the default export is not a function).
 */
export async function loadExtension(
  file: string,
  options: LoadExtensionOptions = {},
): Promise<ExtensionSetup<unknown>> {
  const owner = resolve(file);
  const { virtualModules = {}, cacheDir } = options;
  await checkFile(owner);
  // Imported here, so that a command without extensions does not load the translator.
  const { createJiti } = await import("jiti");
  const jiti = createJiti(import.meta.url, {
    moduleCache: false,
    // Not jiti's default, a shared temporary folder: other users could put code there.
    fsCache: cacheDir ?? false,
    virtualModules: refuseForeignPackages(owner, virtualModules),
  });
  const evaluated = async () => {
    // By default the loader gives .mjs and .cjs to Node, which knows no virtual modules and loads a file only once.
    const how = { filename: owner, async: true, forceTranspile: true };
    const module = await jiti.evalModule(await readFile(owner, "utf8"), how);
    return (module as { default?: unknown } | null)?.default ?? module;
  };
  const outcome = await callWithin(evaluated, {
    timeoutMs: HANDLER_LIMIT_MS,
    clock: systemClock,
    // The load has already failed with an error that names the file, and its result is not used.
    onLate: () => {},
  });
  if (cacheDir !== undefined) await keepPrivate(cacheDir);
  if (outcome.kind === "threw") throw loadError(owner, outcome.error);
  if (outcome.kind !== "answered") {
    const message = `${owner} was still loading after ${HANDLER_LIMIT_MS} ms; move the awaited work into a handler.`;
    throw new ExtensionError("load-timed-out", message, { owner });
  }
  if (typeof outcome.answer !== "function") {
    const message = `${owner} exports no function by default; write "export default (api) => { … }".`;
    throw new ExtensionError("no-default-export", message, { owner });
  }
  return outcome.answer as ExtensionSetup<unknown>;
}

/** Removes the rights of other users on translated files, because the translator only applies the umask. */
async function keepPrivate(cacheDir: string): Promise<void> {
  for (const name of await namesIn(cacheDir)) {
    const path = join(cacheDir, name);
    const facts = await lstat(path).catch(() => undefined);
    // Another process may have removed the file in the meantime.
    if (facts?.isFile() && (facts.mode & 0o077) !== 0) await chmod(path, 0o600).catch(() => undefined);
  }
}

/** Returns the names in a folder; none when it does not exist, because plain JavaScript is not translated. */
const namesIn = (folder: string): Promise<string[]> => readdir(folder).catch(() => []);

async function checkFile(owner: string): Promise<void> {
  const found = await stat(owner).catch((cause: unknown) => {
    const message = `There is no extension to load (${describeThrown(cause)}); check the path.`;
    throw new ExtensionError("not-found", message, { owner, cause });
  });
  if (found.isFile()) return;
  const message = `${owner} is not a file; name the module itself, such as index.ts.`;
  throw new ExtensionError("not-found", message, { owner });
}

/** Message of the parser, on two lines: the problem, then its position. */
const PARSE_ERROR = /^ParseError: (?<what>.*?)\s*\n\s*(?<where>.+:\d+:\d+)/s;

function loadError(owner: string, cause: unknown): ExtensionError {
  if (cause instanceof ExtensionError) return cause;
  const parse = cause instanceof Error ? PARSE_ERROR.exec(cause.message)?.groups : undefined;
  if (parse) {
    const message = `${owner} cannot be read as TypeScript: ${parse["what"]} at ${parse["where"]}.`;
    return new ExtensionError("syntax-error", message, { owner, cause });
  }
  // Node adds the list of requiring files on further lines.
  const [what] = describeThrown(cause).split("\n");
  return new ExtensionError("load-failed", `${owner} failed while it was loaded: ${what}`, { owner, cause });
}

/** Names of modules, except declarations (`.d.ts`). */
const MODULE_NAME = /(?<!\.d)\.[cm]?[jt]s$/;

/** Names of the module of a folder; the first that exists counts. */
const INDEX_NAMES = ["index.ts", "index.js", "index.mts", "index.mjs", "index.cts", "index.cjs"];

/**
 * Returns the extensions of a folder as absolute paths, ordered by name: its modules (`.ts`, `.js`, `.mts`, `.mjs`,
 * `.cts`, `.cjs`), and the `index.ts` or `index.js` of its subfolders. Hidden names and declarations (`.d.ts`) are left
 * out. Runs no code. Links count as their targets. Returns none for a folder that does not exist. Throws
 * `ExtensionError` `unreadable-folder` when the folder or one of these files cannot be read.
 */
export async function findExtensions(folder: string): Promise<readonly string[]> {
  const home = resolve(folder);
  const found: string[] = [];
  for (const name of (await namesOrNone(home)).sort()) {
    if (name.startsWith(".")) continue;
    const names = MODULE_NAME.test(name) ? [name] : INDEX_NAMES.map((index) => join(name, index));
    for (const candidate of names.map((one) => join(home, one)))
      if (await isFile(candidate)) {
        found.push(candidate);
        break;
      }
  }
  return found;
}

async function namesOrNone(folder: string): Promise<string[]> {
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
    const message = `${path} cannot be looked at: ${describeThrown(error)}; make it readable, or remove it.`;
    throw new ExtensionError("unreadable-folder", message, { cause: error });
  }
}

/** Error codes for a missing file, a file in place of a folder, and a link that leads to itself. */
const NOTHING_THERE: ReadonlySet<unknown> = new Set(["ENOENT", "ENOTDIR", "ELOOP"]);

function codeOf(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}

/** Packages of the Pi agent, under its current and its former scope. An extension that runs their code needs Pi. */
const FOREIGN_PACKAGE = /^(?:@earendil-works\/[^/]+|@mariozechner\/pi-[^/]+)/;

/**
 * Returns the host's modules for `file`. Refuses other packages of Pi: even if such a package is installed, it would
 * bring a second agent into the process. The loader checks `name in modules` for every import that remains after types
 * are removed, so `import type` always works and a lazy import is refused when it runs.
 */
function refuseForeignPackages(file: string, modules: Record<string, unknown>): Record<string, unknown> {
  return new Proxy(modules, {
    has(lent, name) {
      if (Object.hasOwn(lent, name)) return true;
      const [foreign] = (typeof name === "string" && FOREIGN_PACKAGE.exec(name)) || [];
      if (foreign === undefined) return false;
      throw new ExtensionError(
        "foreign-package",
        `${file} imports ${foreign}, which belongs to another agent and is not available here; import only its types, and use (event, ctx) instead.`,
        { owner: file },
      );
    },
  });
}
