import { randomUUID } from "node:crypto";
import { EventEmitter } from "node:events";
import { readFile, realpath } from "node:fs/promises";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import * as branchSummary from "@espalier/branch-summary";
import * as compaction from "@espalier/compaction";
import * as policies from "@espalier/compaction/policies";
import * as hooks from "@espalier/extensions";
import { createExtensionHost, ExtensionError, type ExtensionReport } from "@espalier/extensions";
import { findExtensions, loadExtension } from "@espalier/extensions/node";
import { bytesView, EspalierError } from "@espalier/jsonl-stream";
import type { ContextMessage, EntryKind } from "@espalier/session-tree";
import * as sessionTree from "@espalier/session-tree";
import { makeFolder } from "@espalier/session-tree/node";
import * as summarizer from "@espalier/summarizer";
import { renderTranscript } from "@espalier/summarizer";
import { addRule, dropRule } from "../session/append.ts";
import { rulesOf } from "../session/edit.ts";
import type { Session } from "../session/session.ts";
import { type EngineHooks, type EngineHost, engineHooks } from "../session/state.ts";
import { espalierHome } from "../settings/home.ts";
import { type ConfirmTrust, changedSentence, openTrust } from "../settings/trust.ts";
import { missingMember, runAs, sessionFolder, withMissingMembers } from "./context.ts";
import {
  apiMembers,
  defineExtension,
  type EspalierApi,
  type Extension,
  type StateOptions,
  stateOf,
} from "./extension.ts";
import type { ExtensionCommand, ExtensionContext } from "./members.ts";

/** Extensions of a session. */
export interface ExtensionOptions {
  /** Files of extensions, or extensions themselves; an error is thrown for one that cannot be loaded. */
  extensions?: readonly (string | Extension)[];
  /**
   * True: loads also the extensions of the user's folder, and those in `.espalier/extensions` of the session's project,
   * if it is trusted; one that cannot be loaded is reported and left out. Default false.
   */
  discoverExtensions?: boolean;
  /** Confirms a project that changed since it was trusted. Default: its extensions are not loaded. */
  confirmTrust?: ConfirmTrust;
  /** Receives every report on extensions. */
  onReport?: (report: ExtensionReport) => void;
}

/** Makes a host without extensions. */
export function emptyHost(onReport: (report: ExtensionReport) => void): EngineHost {
  return createExtensionHost<EngineHooks, ExtensionContext>({ hooks: engineHooks, onReport });
}

/** Members, other than handlers, that the extensions of one session share. */
export class ExtensionMembers {
  readonly commands = new Map<string, ExtensionCommand>();
  /** Defaults of the flags that extensions registered. */
  readonly flags = new Map<string, boolean | string | undefined>();
  /** Bus of `pi.events`, with any number of listeners. */
  readonly channels: EventEmitter = new EventEmitter().setMaxListeners(0);
  /** Shows dialogs one after the other. */
  readonly dialogs = new sessionTree.Turns();
}

/**
 * Registers a session's extensions with its host, each file once: a file can be found in a folder, be named by the
 * settings and by the caller. Throws an `ExtensionError` for a named extension that cannot be loaded.
 */
export async function loadExtensions(
  session: Session,
  options: ExtensionOptions,
  home: string,
): Promise<void> {
  const files = new Set<string>();
  const registerOnce = async (extension: string | Extension, unnamed?: string) => {
    const file = typeof extension === "string" ? await realpath(extension).catch(() => extension) : undefined;
    if (file !== undefined && files.has(file)) return;
    await register(session, extension, home, unnamed);
    if (file !== undefined) files.add(file);
  };
  for (const found of options.discoverExtensions ? await discovered(session, options, home) : []) {
    try {
      await registerOnce(found);
    } catch (error) {
      if (!(error instanceof ExtensionError)) throw error;
      const { message } = error;
      session.host.report({ kind: "refused-load", owners: [found], hook: null, message, error });
    }
  }
  for (const [at, named] of (options.extensions ?? []).entries())
    await registerOnce(named, `inline extension ${at + 1}`);
}

/**
 * Returns the extensions of the user, and those of the session's project, if it is trusted and unchanged, or if its
 * change is confirmed.
 */
async function discovered(
  { header, host }: Session,
  { confirmTrust }: ExtensionOptions,
  home: string,
): Promise<string[]> {
  const ofUser = await findExtensions(join(home, "extensions"));
  const project = header ? sessionFolder(header) : "";
  const trust = openTrust(home);
  const seen = project === "" ? undefined : trust.look(project);
  if (!seen || seen.state === "untrusted") return [...ofUser];
  const found = await findExtensions(join(project, ".espalier", "extensions"));
  if (found.length > 0 && seen.state === "changed") {
    if (!(await confirmTrust?.(seen))) {
      host.report({ kind: "refused-load", owners: found, hook: null, message: changedSentence(seen) });
      return [...ofUser];
    }
    await trust.trust(project);
  }
  return [...ofUser, ...found];
}

/**
 * Registers one extension with the session's host.
 *
 * @param unnamed name in messages for a function without a name
 */
async function register(
  session: Session,
  extension: string | Extension,
  home: string,
  unnamed = "",
): Promise<void> {
  const { owner, setup, ofPi } =
    typeof extension === "string"
      ? await loaded(extension, home)
      : { owner: isNamed(extension) ? extension.name : unnamed, setup: extension, ofPi: false };
  let removals: (() => void)[] | null | undefined = [];
  const removable = (remove: () => void) => void (removals === null ? remove() : removals?.push(remove));
  try {
    await session.host.register(owner, (api) =>
      setup(
        withMissingMembers("pi", {
          ...apiMembers(session, owner, removable),
          on: onAs(owner, api.on, ofPi),
          state: <State>(type: string, state: StateOptions<State>) => stateOf(session, type, state),
          registerKind: (kind: EntryKind) => session.registerKind(kind),
        } as EspalierApi),
      ),
    );
  } catch (error) {
    for (const remove of removals) remove();
    // A setup that took too long is still running.
    removals = null;
    throw error;
  }
  removals = undefined;
}

/**
 * Runs handlers as their extension. For an extension of Pi, also separates the hooks as Pi does: `session_before_fork`
 * only for forks, `session_before_tree` only for navigations. Each handler is called once.
 */
function onAs(owner: string, on: EspalierApi["on"], ofPi: boolean): EspalierApi["on"] {
  type Handle = (event: { kind?: unknown }, ctx: unknown) => unknown;
  const register = on as (hook: unknown, handler: unknown, options?: unknown) => () => void;
  const onAsOwner = (hook: unknown, handler: unknown, options?: unknown) => {
    if (typeof handler !== "function") return register(hook, handler, options);
    const isOnlyForks = ofPi && hook === "session_before_fork";
    const handle: Handle = (event, ctx) =>
      isOnlyForks && event.kind === "navigate"
        ? undefined
        : runAs(owner, () => (handler as Handle)(event, ctx));
    return register(hook, handle, options);
  };
  return onAsOwner as EspalierApi["on"];
}

/** Returns whether a function has its own name; an anonymous one has an empty name, and a default export "default". */
const isNamed = ({ name }: Extension): boolean => name !== "" && name !== "default";

async function loaded(
  file: string,
  home: string,
): Promise<{ owner: string; setup: Extension; ofPi: boolean }> {
  const cacheDir = join(home, "cache", "extensions");
  makeFolder(cacheDir);
  // An extension that imports these gets the host's own instances, so that kinds and hooks are identical values.
  const doors = {
    ...policies,
    ...branchSummary,
    ...compaction,
    ...sessionTree,
    ...summarizer,
    ...hooks,
    addRule,
    bytesView,
    defineExtension,
    dropRule,
    engineHooks,
    EspalierError,
    rulesOf,
  };
  const ours = {
    espalier: doors,
    "espalier/extend": doors,
    "espalier/policies": policies,
    // Former names of the packages, and of their error classes.
    "@espalier/engine": { defineExtension, engineHooks, EngineError: EspalierError },
    "@espalier/session-tree": { ...sessionTree, SessionTreeError: EspalierError },
    "@espalier/summarizer": { ...summarizer, SummarizerError: EspalierError },
    "@espalier/compaction": { ...compaction, CompactionError: EspalierError },
    "@espalier/branch-summary": branchSummary,
    "@espalier/policies": policies,
  };
  const virtualModules: Record<string, unknown> = piModules(file);
  for (const [name, members] of Object.entries(ours))
    virtualModules[name] = lent(name, members, (key) =>
      key in doors ? `${key} moved: import it from "espalier/extend" instead of "${name}".` : undefined,
    );
  const setup = await loadExtension(file, { virtualModules, cacheDir });
  const ofPi = IMPORT_OF_PI.test(await readFile(file, "utf8"));
  return { owner: file, setup: setup as Extension, ofPi };
}

/** An import from one of Pi's packages, including types, under the current or the former scope. */
const IMPORT_OF_PI = /\bfrom\s*["'](?:@earendil-works|@mariozechner)\/pi-[\w/-]+["']/;

/**
 * Returns the modules that an extension of Pi imports. Exports that do not need Pi are available; each other export
 * throws an error with its name when it is used. Typebox is provided only when it is not installed next to the
 * extension.
 */
function piModules(file: string): Record<string, unknown> {
  const modules: Record<string, unknown> = {};
  for (const [name, members] of Object.entries(MODULES)) {
    const module = lent(name, members);
    for (const scope of ["@earendil-works", "@mariozechner"]) modules[`${scope}/${name}`] = module;
  }
  for (const name of ["typebox", "@sinclair/typebox"])
    if (!isInstalled(name, file)) modules[name] = lent(name, { Type });
  return modules;
}

function isInstalled(name: string, file: string): boolean {
  try {
    createRequire(resolve(file)).resolve(name);
    return true;
  } catch {
    // A module that cannot be resolved is missing, for any reason.
    return false;
  }
}

/**
 * Wraps a module so that a missing export throws an error with its name; `moved` has a sentence for exports that moved.
 */
function lent(
  name: string,
  members: Record<string, unknown>,
  moved: (key: string) => string | undefined = () => undefined,
): object {
  const isMissing = (target: object, key: string | symbol) =>
    typeof key === "string" && !(key in target) && key !== "default" && key !== "then";
  return new Proxy({ __esModule: true, ...members } as Record<string, unknown>, {
    // The loader checks for an export before it reads it.
    has: (target, key) => key in target || isMissing(target, key),
    get: (target, key, receiver) =>
      isMissing(target, key)
        ? missingMember(`${String(key)} of ${name}`, moved(String(key)))
        : Reflect.get(target, key, receiver),
  });
}

/**
 * Stand-in for typebox: each function returns an empty schema. Extensions make schemas only for `registerTool`, which is
 * not available here.
 */
const Type: Record<string, unknown> = new Proxy({}, { get: () => () => ({}) });

const AI = { Type, StringEnum: () => ({}), uuidv7: randomUUID };

/** Exports of Pi's packages that do not need Pi. */
const MODULES: Readonly<Record<string, Record<string, unknown>>> = {
  "pi-coding-agent": {
    CONFIG_DIR_NAME: ".espalier",
    getAgentDir: espalierHome,
    defineTool: (tool: unknown) => tool,
    // `serializeConversation` accepts the neutral messages unchanged.
    convertToLlm: (messages: readonly ContextMessage[]) => messages.filter(({ role }) => role !== "system"),
    serializeConversation: (messages: readonly ContextMessage[]) => renderTranscript(messages),
  },
  "pi-agent-core": {},
  "pi-tui": {},
  "pi-ai": AI,
  "pi-ai/compat": AI,
  "pi-ai/oauth": {},
  "pi-ai/providers/all": {},
};
