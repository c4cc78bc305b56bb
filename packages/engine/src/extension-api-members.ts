import { execFile } from "node:child_process";
import { ExtensionError } from "@espalier/extensions";
import {
  custom,
  customMessage,
  type NewEntry,
  sessionName,
  thinkingLevelChange,
} from "@espalier/session-tree";
import { commandContext, sessionFolder } from "./context-for-handlers.ts";
import { EngineError } from "./engine-error.ts";
import type { PiApi, ProgramOptions, ProgramResult } from "./extension.ts";
import type { ExtensionCommand } from "./extension-members.ts";
import { missingMember } from "./missing-members.ts";
import type { SessionState } from "./session-state.ts";

/** Members of the api that Pi's extensions use, for one extension. */
export function apiMembers(session: SessionState, owner: string): PiApi {
  const { core, host, extensionMembers: shared } = session;
  const report = (kind: "missing-member" | "failed-act" | "conflict", message: string, error?: unknown) =>
    host.report({ kind, owners: [owner], hook: null, message, ...(error === undefined ? {} : { error }) });
  /** Pi's extensions do not wait for an act: closing does, and what fails is reported. */
  const begin = (what: string, act: Promise<unknown>): void => {
    session.track(
      act.catch((error: unknown) =>
        report("failed-act", `${owner} called ${what}, which failed: ${(error as Error).message}`, error),
      ),
    );
  };
  const append = (what: string, entry: NewEntry) => begin(what, core.append(entry));
  /** Reported, and the rest of the extension goes on. */
  const absent = (name: string) => () =>
    report("missing-member", `${owner} uses pi.${name}, which is not available here; it goes on without.`);
  return {
    registerCommand(name, { description = "", handler }) {
      const other = shared.commands.get(name);
      if (other) {
        const message = `${other.owner} and ${owner} both register the command "${name}"; that of ${other.owner} stands.`;
        return report("conflict", message);
      }
      shared.commands.set(name, { name, description, owner, handler });
    },
    appendEntry: (customType, data) =>
      append("appendEntry", custom.of({ customType, ...(data === undefined ? {} : { data }) })),
    sendMessage({ customType, content, display, details }, options = {}) {
      if (options.triggerTurn) missingCall("pi.sendMessage with triggerTurn");
      const fields = { customType, content, display, ...(details === undefined ? {} : { details }) };
      append("sendMessage", customMessage.of(fields));
    },
    setLabel: (entryId, label) => begin("setLabel", shared.acts.label(entryId, label)),
    setSessionName: (name) => begin("setSessionName", shared.acts.rename(name)),
    getSessionName: () => sessionName(core.tree),
    setThinkingLevel: (thinkingLevel) =>
      append("setThinkingLevel", thinkingLevelChange.of({ thinkingLevel })),
    getThinkingLevel: () => core.context.thinkingLevel,
    getCommands: () =>
      [...shared.commands.values()].map(({ name, description }) => ({
        name,
        description,
        source: "extension",
      })),
    exec: (command, args = [], options = {}) =>
      runProgram(command, args, { ...options, cwd: options.cwd ?? sessionFolder(core.header) }),
    events: {
      on: (channel, listener) => shared.on(channel, listener),
      emit(channel, data) {
        for (const listener of shared.listeners(channel))
          begin(
            `events.emit("${channel}")`,
            Promise.resolve().then(() => listener(data)),
          );
      },
    },
    registerFlag(name, options) {
      shared.flags.set(name, options.default);
      absent(`registerFlag("${name}")`)();
    },
    getFlag: (name) => shared.flags.get(name),
    registerTool: absent("registerTool"),
    registerShortcut: absent("registerShortcut"),
    registerMessageRenderer: absent("registerMessageRenderer"),
    registerEntryRenderer: absent("registerEntryRenderer"),
    registerMarkdownTransformer: absent("registerMarkdownTransformer"),
    registerProvider: absent("registerProvider"),
    unregisterProvider: absent("unregisterProvider"),
  };
}

function missingCall(what: string): void {
  (missingMember(what) as () => void)();
}

/** Runs a program without a shell and waits for its end. One that cannot be started ends with code 1, and says why. */
function runProgram(
  command: string,
  args: readonly string[],
  { cwd, timeout = 0, signal }: ProgramOptions,
): Promise<ProgramResult> {
  const options = {
    encoding: "utf8" as const,
    maxBuffer: Number.POSITIVE_INFINITY,
    timeout,
    ...(cwd === undefined ? {} : { cwd }),
    ...(signal ? { signal } : {}),
  };
  return new Promise((resolve) => {
    const child = execFile(command, [...args], options, (error, stdout, stderr) => {
      const code = typeof error?.code === "number" ? error.code : error ? 1 : 0;
      const isStarted = child.pid !== undefined;
      const killed = error !== null && (error.killed === true || error.name === "AbortError");
      resolve({ stdout, stderr: isStarted ? stderr : (error?.message ?? stderr), code, killed });
    });
    child.stdin?.end();
  });
}

/**
 * Runs a command that an extension registered, and waits for what it began.
 * @throws EngineError `unknown-command`, `command-failed`
 */
export async function runCommand(
  session: SessionState,
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
    throw new EngineError("unknown-command", `There is no command "${name}" of an extension; ${known}.`);
  }
  await session.core.load();
  try {
    await carryOut(session, command, args, signal);
  } finally {
    await session.settle();
  }
}

async function carryOut(
  session: SessionState,
  { name, owner, handler }: ExtensionCommand,
  args: string,
  signal?: AbortSignal,
): Promise<void> {
  try {
    await handler(args, commandContext(session, signal));
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    const isMissing = cause instanceof ExtensionError && cause.code === "missing-member";
    const message = isMissing
      ? `The command /${name} of ${owner} stopped: ${why}`
      : `The command /${name} of ${owner} failed: ${why}`;
    throw new EngineError("command-failed", message, { by: owner, cause });
  }
}
