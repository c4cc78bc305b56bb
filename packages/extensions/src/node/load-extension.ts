import { chmod, lstat, readdir, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import {
  describeThrown,
  ExtensionError,
  type ExtensionSetup,
  HANDLER_LIMIT_MS,
  refuseTimeLimit,
} from "../hook.ts";
import { callWithin, systemClock } from "../run.ts";

/** Options of loading a module. */
export interface LoadExtensionOptions {
  /** Modules that the extension gets as the host has them, by the name it imports: `{"@espalier/engine": namespace}`. */
  virtualModules?: Record<string, unknown>;
  /**
   * A folder for translated files: 0.1 s in place of 0.3 s for the first TypeScript file. Its content is run, so it must
   * be writable for its owner alone. Default: nothing is kept.
   */
  cacheDir?: string;
  /** Time limit of loading the module with what it awaits at its top level; default 10 s, in milliseconds. */
  timeoutMs?: number;
}

/** An extension whose module was loaded, ready to be registered. */
export interface LoadedExtension {
  /** Absolute path. */
  readonly file: string;
  readonly setup: ExtensionSetup<unknown>;
}

/**
 * Loads a TypeScript or JavaScript module and its imports, as they are on disk now.
 * Loading runs code: whether the file may be trusted is decided before. Throws `ExtensionError` with the file as owner:
 * `not-found`, `syntax-error`, `foreign-package`, `load-failed`, `load-timed-out`, `no-default-export`.
 */
export async function loadExtension(
  file: string,
  options: LoadExtensionOptions = {},
): Promise<LoadedExtension> {
  const owner = resolve(file);
  const { virtualModules = {}, cacheDir, timeoutMs = HANDLER_LIMIT_MS } = options;
  const refusal = refuseTimeLimit(timeoutMs);
  if (refusal) throw new ExtensionError("load-failed", `${owner} is to be loaded with ${refusal}`, { owner });
  await checkFile(owner);
  // Loaded here: a command that runs no extension does not wait for the translator.
  const { createJiti } = await import("jiti");
  const jiti = createJiti(import.meta.url, {
    moduleCache: false,
    // Not jiti's own default, a folder in the machine's temporary one: others could put code there.
    fsCache: cacheDir ?? false,
    virtualModules: refuseForeignPackages(owner, virtualModules),
  });
  const outcome = await callWithin(() => jiti.import(owner, { default: true }), {
    timeoutMs,
    clock: systemClock,
    // The load has failed by then, with an error that names the file; nothing of it is in use.
    onLate: () => {},
  });
  if (cacheDir !== undefined) await keepPrivate(cacheDir);
  if (outcome.kind === "threw") throw loadError(owner, outcome.error);
  if (outcome.kind !== "answered") {
    const message = `${owner} was still loading after ${timeoutMs} ms; move what it awaits into a handler.`;
    throw new ExtensionError("load-timed-out", message, { owner });
  }
  if (typeof outcome.answer !== "function") {
    const message = `${owner} exports no function by default; write "export default (api) => { … }".`;
    throw new ExtensionError("no-default-export", message, { owner });
  }
  return { file: owner, setup: outcome.answer as ExtensionSetup<unknown> };
}

/** Takes the rights of others from translated files: the translator leaves them to the umask. */
async function keepPrivate(cacheDir: string): Promise<void> {
  for (const name of await namesIn(cacheDir)) {
    const path = join(cacheDir, name);
    const facts = await lstat(path).catch(() => undefined);
    // Another process may have taken it away since.
    if (facts?.isFile() && (facts.mode & 0o077) !== 0) await chmod(path, 0o600).catch(() => undefined);
  }
}

/** None where nothing was kept: a module of plain JavaScript is not translated. */
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

/** The parser's message, on two lines: the problem, then its place. */
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
  for (const name of (await namesOrNone(home)).sort()) {
    const candidate = MODULE_NAME.test(name) ? join(home, name) : join(home, name, "index.ts");
    if (!name.startsWith(".") && (await isFile(candidate))) found.push(candidate);
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
    const message = `${path} cannot be looked at: ${describeThrown(error)}; make it readable, or take it away.`;
    throw new ExtensionError("unreadable-folder", message, { cause: error });
  }
}

/** Nothing of that name; a file where a folder would have to be; a link that leads to itself. */
const NOTHING_THERE: ReadonlySet<unknown> = new Set(["ENOENT", "ENOTDIR", "ELOOP"]);

function codeOf(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}

/** Packages of the Pi agent under its present and its former scope; an extension that runs them needs Pi around it. */
const FOREIGN_PACKAGE = /^(?:@earendil-works\/[^/]+|@mariozechner\/pi-[^/]+)/;

/**
 * The modules a host lends to `file`, refusing foreign packages that are not among them: even where such a package is
 * installed, it would bring a second agent into the process. The loader asks `name in modules` for every import that is
 * left once types are gone, so `import type` needs nothing and a lazy import is refused when it runs.
 */
function refuseForeignPackages(file: string, modules: Record<string, unknown>): Record<string, unknown> {
  return new Proxy(modules, {
    has(lent, name) {
      if (Object.hasOwn(lent, name)) return true;
      const [foreign] = (typeof name === "string" && FOREIGN_PACKAGE.exec(name)) || [];
      if (foreign === undefined) return false;
      throw new ExtensionError(
        "foreign-package",
        `${file} imports ${foreign}, which belongs to another agent and is not available here; import its types only, and use what (event, ctx) offers in its place.`,
        { owner: file },
      );
    },
  });
}
