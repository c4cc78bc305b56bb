import { execFile } from "node:child_process";
import { deepFreeze, type ExtensionApi, ExtensionError, type ExtensionSetup } from "@espalier/extensions";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  custom,
  customMessage,
  type Entry,
  type EntryKind,
  isCustom,
  type NewEntry,
  sessionName,
  thinkingLevelChange,
  type UserContent,
} from "@espalier/session-tree";
import type { Session } from "../session/session.ts";
import type { EngineHooks } from "../session/state.ts";
import { commandContext, missingMember, runAs, sessionFolder } from "./context.ts";
import type { ExtensionCommandContext, ExtensionContext } from "./members.ts";

/** State of an extension that follows the branch: reduced from its `custom` entries along the path. */
export interface ExtensionState<State> {
  /** Returns the state at the leaf, or at any other entry. */
  get(leafId?: string | null): State;
  /** Appends data under the leaf; the state includes the data from then on. Returns the id of the entry. */
  append(data: unknown): Promise<string>;
}

/** Reduction of data to a state. Default: the newest data is the state. */
export interface StateOptions<State> {
  /** The state of a path without any data; it is frozen, and so are the entries and their data. */
  initial: State;
  /** Returns the state after one more entry; entries come oldest first. Pure. Default: the data itself. */
  fold?(state: State, data: unknown, entry: Entry): State;
}

/** Options of a program that an extension runs. */
export interface ProgramOptions {
  /** Working folder. Default: the folder of the session's agent. */
  cwd?: string;
  /** Time limit in milliseconds. Default 0: no limit. */
  timeout?: number;
  /** Ends the program. Default: no signal. */
  signal?: AbortSignal;
}

/** Result of a program. */
export interface ProgramResult {
  stdout: string;
  stderr: string;
  /** Exit code; 1 also for a program that could not be started, or was ended by a signal. */
  code: number;
  /** True when the time limit or the signal ended the program. */
  killed: boolean;
}

/**
 * Members that extensions for Pi use, with Pi's names. Members that append do not wait: closing the session waits for
 * them, and failures are reported. Any other member of Pi throws an error with its name when it is called.
 */
export interface PiApi extends Record<(typeof ABSENT)[number], (...given: unknown[]) => void> {
  /**
   * Registers a command: `/name` in the chat, `espalier run <session> <name>` on the command line. If several
   * extensions register a name, the first one is used. In the chat, a command of the chat itself has priority.
   */
  registerCommand(
    name: string,
    options: { description?: string; handler(args: string, ctx: ExtensionCommandContext): unknown },
  ): void;
  /** Appends a `custom` entry, which the model does not read. */
  appendEntry(customType: string, data?: unknown): void;
  /** Appends a `custom_message`, which the model reads. Throws `missing-member` with `triggerTurn`. */
  sendMessage(
    message: { customType: string; content: UserContent; display: boolean; details?: unknown },
    options?: { triggerTurn?: boolean },
  ): void;
  /** Labels an entry; undefined removes the label. */
  setLabel(entryId: string, label: string | undefined): void;
  /** Names the session. */
  setSessionName(name: string): void;
  /** Returns the session's name; undefined when it has none. */
  getSessionName(): string | undefined;
  /** Appends a change of the thinking level. */
  setThinkingLevel(level: string): void;
  /** Returns the current thinking level. */
  getThinkingLevel(): string;
  /** Lists the commands that extensions registered. */
  getCommands(): { name: string; description: string; source: string }[];
  /** Runs a program without a shell. Never rejects. */
  exec(command: string, args?: readonly string[], options?: ProgramOptions): Promise<ProgramResult>;
  /** Bus that the extensions of a session share. */
  events: {
    /** Listens to a channel; returns the function that ends the subscription. */
    on(channel: string, listener: (data: unknown) => unknown): () => void;
    /** Calls every listener of a channel later, without waiting; a failure of a listener is reported. */
    emit(channel: string, data?: unknown): void;
  };
  /** Registers a flag, which always has its default, because no command line sets it. This is reported. */
  registerFlag(name: string, options: { default?: boolean | string }): void;
  /** Returns the default of a registered flag. */
  getFlag(name: string): boolean | string | undefined;
}

/** Members of Pi that are not available here: a call is reported, and the extension continues. */
const ABSENT = [
  "registerTool",
  "registerShortcut",
  "registerMessageRenderer",
  "registerEntryRenderer",
  "registerMarkdownTransformer",
  "registerProvider",
  "unregisterProvider",
] as const;

/** API of an extension: `on` for every hook of the engine, and state that follows the branch. */
export interface EspalierApi extends ExtensionApi<EngineHooks, ExtensionContext>, PiApi {
  /**
   * Returns state that is stored in entries of the session and follows the branch.
   *
   * @param type the `customType` of the entries; begin it with the extension's name
   */
  state<State>(type: string, options: StateOptions<State>): ExtensionState<State>;
  /**
   * Registers a kind of entry in addition to those of the format; see `SessionOptions.kinds`.
   *
   * @throws EspalierError `bad-kind`; `exists` for a type of another kind
   */
  registerKind(kind: EntryKind): void;
}

/** Default export of an extension's file. */
export type Extension = ExtensionSetup<EspalierApi>;

/** Defines an extension with all hooks typed: `export default defineExtension((api) => { api.on(…) })`. */
export function defineExtension(setup: Extension): Extension;

/**
 * Defines an extension with a name for reports and vetoes, if it is not in a file: `defineExtension("careful", (api) =>
 * { … })`.
 */
export function defineExtension(name: string, setup: Extension): Extension;

export function defineExtension(nameOrSetup: string | Extension, setup?: Extension): Extension {
  if (typeof nameOrSetup !== "string") return nameOrSetup;
  const named: Extension = (api) => setup?.(api);
  return Object.defineProperty(named, "name", { value: nameOrSetup });
}

/** Returns the state functions of the API. */
export function stateOf<State>(
  session: Session,
  type: string,
  options: StateOptions<State>,
): ExtensionState<State> {
  const { fold = (_state: State, data: unknown) => data as State } = options;
  // A fold that changed the initial state or an entry would give other paths its result.
  const initial = deepFreeze(options.initial);
  return {
    get(leafId = session.leafId) {
      let state = initial;
      for (const entry of session.getBranch(leafId))
        if (isCustom(entry, type)) state = fold(state, deepFreeze(entry).data, entry);
      return state;
    },
    async append(data) {
      const [entry] = await session.append(custom.of({ customType: type, data }));
      return entry!.id;
    },
  };
}

/**
 * Makes the members that extensions for Pi use, for the extension `owner`.
 *
 * @param removable receives functions that remove what the extension registers
 */
export function apiMembers(session: Session, owner: string, removable: (remove: () => void) => void): PiApi {
  const { host, extensionMembers: shared } = session;
  const report = (kind: "missing-member" | "failed-act" | "conflict", message: string, error?: unknown) =>
    host.report({ kind, owners: [owner], hook: null, message, ...(error === undefined ? {} : { error }) });
  /** Pi's extensions do not wait for an action: closing waits for it, and a failure is reported. */
  const begin = (what: string, act: Promise<unknown>): void => {
    void session.track(
      act.catch((error: unknown) =>
        report("failed-act", `${owner} called ${what}, which failed: ${(error as Error).message}`, error),
      ),
    );
  };
  const append = (what: string, entry: NewEntry) => begin(what, session.append(entry));
  const reportAbsent = (name: string) =>
    report(
      "missing-member",
      `${owner} uses pi.${name}, which is not available here; the extension continues without it.`,
    );
  const absent = ABSENT.map((name) => [name, () => reportAbsent(name)]);
  return {
    registerCommand(name, { description = "", handler }) {
      const other = shared.commands.get(name);
      if (other) {
        const message = `${other.owner} and ${owner} both register the command "${name}"; the one of ${other.owner} is used.`;
        return report("conflict", message);
      }
      shared.commands.set(name, { name, description, owner, handler });
      removable(() => shared.commands.delete(name));
    },
    appendEntry: (customType, data) =>
      append("appendEntry", custom.of({ customType, ...(data === undefined ? {} : { data }) })),
    sendMessage({ customType, content, display, details }, options = {}) {
      if (options.triggerTurn) (missingMember("pi.sendMessage with triggerTurn") as () => void)();
      const fields = { customType, content, display, ...(details === undefined ? {} : { details }) };
      append("sendMessage", customMessage.of(fields));
    },
    setLabel: (entryId, label) => begin("setLabel", session.label(entryId, label)),
    setSessionName: (name) => begin("setSessionName", session.rename(name)),
    getSessionName: () => sessionName(session.tree),
    setThinkingLevel: (thinkingLevel) =>
      append("setThinkingLevel", thinkingLevelChange.of({ thinkingLevel })),
    getThinkingLevel: () => session.context.thinkingLevel,
    getCommands: () =>
      [...shared.commands.values()].map(({ name, description }) => ({
        name,
        description,
        source: "extension",
      })),
    exec: (command, args = [], options = {}) =>
      runProgram(command, args, { ...options, cwd: options.cwd ?? sessionFolder(session.header) }),
    events: {
      on(channel, listener) {
        const remove = () => void shared.channels.off(channel, listener);
        shared.channels.on(channel, listener);
        removable(remove);
        return remove;
      },
      emit(channel, data) {
        for (const listener of shared.channels.listeners(channel))
          begin(
            `events.emit("${channel}")`,
            Promise.resolve().then(() => listener(data)),
          );
      },
    },
    registerFlag(name, options) {
      shared.flags.set(name, options.default);
      reportAbsent(`registerFlag("${name}")`);
    },
    getFlag: (name) => shared.flags.get(name),
    ...(Object.fromEntries(absent) as Pick<PiApi, (typeof ABSENT)[number]>),
  };
}

/**
 * Runs a program without a shell and waits for its end. A program that cannot be started has the code 1, and the reason
 * in `stderr`.
 */
function runProgram(
  command: string,
  args: readonly string[],
  { cwd, timeout = 0, signal }: ProgramOptions,
): Promise<ProgramResult> {
  const options = { encoding: "utf8", maxBuffer: Number.POSITIVE_INFINITY, timeout, cwd, signal } as const;
  return new Promise<ProgramResult>((resolve) => {
    const child = execFile(command, [...args], options, (error, stdout, stderr) => {
      const code = typeof error?.code === "number" ? error.code : error ? 1 : 0;
      const isStarted = child.pid !== undefined;
      const killed = error !== null && (error.killed === true || error.name === "AbortError");
      resolve({ stdout, stderr: isStarted ? stderr : (error?.message ?? stderr), code, killed });
    });
    child.stdin?.end();
    // Node refuses some arguments at once, for example an empty command.
  }).catch((error: Error) => ({ stdout: "", stderr: error.message, code: 1, killed: false }));
}

/** Runs a command that an extension registered; see `Session.runCommand`. */
export async function runCommand(
  session: Session,
  name: string,
  args: string,
  signal?: AbortSignal,
): Promise<void> {
  const { commands } = session.extensionMembers;
  const command = commands.get(name);
  if (!command) {
    const names = [...commands.keys()].join(", ");
    const known =
      names === "" ? "no extension registers one; name its file with --extension" : `there are: ${names}`;
    throw new EspalierError("unknown-command", `There is no command "${name}" of an extension; ${known}.`);
  }
  await session.load();
  const { owner, handler } = command;
  try {
    await runAs(owner, () => handler(args, commandContext(session, signal)));
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    const isMissing = cause instanceof ExtensionError && cause.code === "missing-member";
    const message = `The command /${name} of ${owner} ${isMissing ? "stopped" : "failed"}: ${why}`;
    throw new EspalierError("command-failed", message, { by: owner, cause });
  } finally {
    await session.settle();
  }
}
