import type { CallDescription, Command, Outcome } from "./tool-calls.ts";

/** Changes of one file. */
export interface FileWork {
  path: string;
  reads: number;
  /** Includes those of an earlier summary. */
  edits: number;
  /** True where the messages made it; a file of an earlier summary was there before. */
  created: boolean;
  /** The newest message about it; -1 where only an earlier summary has it. */
  last: number;
  /** Error of the last attempt to change it; undefined once one succeeded. */
  failure: string | undefined;
}

/** Runs of one command. */
export interface CommandWork extends Command {
  runs: number;
  /** The message of the newest run. */
  last: number;
  /** End of the last run, which decides: a later success settles an earlier failure. */
  failed: boolean;
  errorLine: string | undefined;
}

/** Changes of files and runs of commands by calls, with the state each was left in. */
export interface WorkLog {
  record(call: CallDescription, outcome: Outcome, message: number): void;
  /** A file of an earlier summary, and its number of changes by then. */
  inherit(path: string, edits: number): void;
  files(): FileWork[];
  commands(): CommandWork[];
}

/** Files and commands remembered; the ones untouched longest are forgotten first. */
const REMEMBERED = 2_000;

export function createWorkLog(): WorkLog {
  let files = new Map<string, FileWork>();
  let commands = new Map<string, CommandWork>();

  function newest<Work extends { last: number }>(works: Map<string, Work>): Map<string, Work> {
    if (works.size < REMEMBERED * 2) return works;
    return new Map([...works].sort(([, a], [, b]) => b.last - a.last).slice(0, REMEMBERED));
  }

  function fileAt(path: string, message: number): FileWork {
    const file = files.get(path) ?? {
      path,
      reads: 0,
      edits: 0,
      created: false,
      last: message,
      failure: undefined,
    };
    file.last = message;
    files.set(path, file);
    return file;
  }

  function recordFile(file: FileWork, { purpose }: CallDescription, outcome: Outcome): void {
    if (purpose === "read") {
      file.reads++;
    } else if (outcome.failed) {
      if (purpose !== "run") file.failure = outcome.errorLine ?? "no reason given";
    } else {
      if (purpose === "write" && file.reads === 0 && file.edits === 0) file.created = true;
      file.edits++;
      file.failure = undefined;
    }
  }

  return {
    record(call, outcome, message) {
      if (call.purpose === "other" || (call.purpose === "read" && outcome.failed)) return;
      for (const path of call.paths) recordFile(fileAt(path, message), call, outcome);
      if (call.command !== undefined && call.command.key !== "") {
        const { key } = call.command;
        const runs = (commands.get(key)?.runs ?? 0) + 1;
        commands.set(key, { ...call.command, runs, last: message, ...outcome });
      }
      files = newest(files);
      commands = newest(commands);
    },
    inherit(path, edits) {
      const file = files.get(path) ?? fileAt(path, -1);
      file.edits += edits;
      file.created = false;
    },
    files: () => [...files.values()],
    commands: () => [...commands.values()],
  };
}
