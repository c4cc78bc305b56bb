import { type Command, CommanderError } from "commander";
import leven from "leven";
import { plainLine } from "./text.ts";

/** A failed command: a code for programs, a sentence for people. */
interface Failure {
  code: string;
  message: string;
  exitCode: number;
  /** The extension that vetoed the command, and its reason; absent for other failures. */
  by?: string;
  reason?: string;
}

/** The one error class of this package. */
export class CommandError extends Error {
  override readonly name = "CommandError";
  readonly code: CommandErrorCode;
  constructor(code: CommandErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

type CommandErrorCode =
  | "usage" // an argument or option that cannot be understood
  | "ambiguous" // the beginning of an id or a label that several entries have
  | "bad-input" // a line of stdin that cannot be understood, or no input
  | "confirm" // something that cannot be undone was not confirmed
  | "damaged" // the line of an entry that cannot be read any more
  | "not-found" // a file, folder, session or message that does not exist, or several that match
  | "foreign" // a session in the format of another agent, which has to be imported first
  | "exists" // a session or a folder is in the place of a new file
  | "verify" // a replay that differs from a context built from scratch
  | "changed" // a file that should not have been touched
  | "settings" // a settings file of another agent that cannot be changed safely
  | "output" // stdout accepts nothing
  | "no-key" // a model needs an API key, and there is none
  | "model" // the model did not answer
  | "aborted"; // interrupted before it was done

const WRONG_USAGE = 2;

/**
 * Describes a thrown value; `command` is the name of the command, if known. The code is `internal` for an error without
 * one. Exit code: 2 for wrong usage, 130 for `aborted`, else 1.
 */
export function failureOf(error: unknown, command = ""): Failure {
  if (error instanceof CommanderError) {
    return { code: "usage", message: usageSentence(error, command), exitCode: WRONG_USAGE };
  }
  if (!(error instanceof Error)) return { code: "internal", message: String(error), exitCode: 1 };
  const { code, by, reason } = error as { code?: unknown; by?: unknown; reason?: unknown };
  const exitCode = code === "usage" ? WRONG_USAGE : code === "aborted" ? INTERRUPTED : 1;
  return {
    code: typeof code === "string" ? code : "internal",
    message: plainLine(systemSentence(error) ?? error.message),
    exitCode,
    ...(typeof by === "string" ? { by } : {}),
    ...(typeof reason === "string" ? { reason } : {}),
  };
}

/** Sentence for an error of the system that names a path and that no command described; undefined for others. */
function systemSentence({ code, syscall, path, dest }: NodeJS.ErrnoException & { dest?: string }) {
  if (syscall === undefined || code === undefined) return undefined;
  if (syscall === "uv_cwd") return "The current folder does not exist any more; change to another folder.";
  const place = dest ?? path;
  if (place === undefined) return undefined;
  return `${place} cannot be used (${code}, ${syscall}); check that its folder exists, its permissions and the free space on the disk.`;
}

/** Exit code of a process that ended by SIGINT. */
export const INTERRUPTED = 130;

function usageSentence({ code, message }: CommanderError, command: string): string {
  // Message of commander's error when it would print the help.
  if (message === "(outputHelp)") return "Name a command; `espalier --help` lists them.";
  const [first = "", ...rest] = message.replace(/^error: (?:command-argument value )?/, "").split("\n");
  const sentence = `${first.charAt(0).toUpperCase()}${first.slice(1)}.`;
  const isQuery = code === "commander.excessArguments" && QUERIES.has(command);
  const hint = [...rest, isQuery ? 'Put a query of several words between quotes: "disk full".' : ""].join(
    " ",
  );
  return plainLine(
    `${sentence.replace(/\.\.$/, ".")} ${hint} See \`espalier ${command && `${command} `}--help\`.`,
  );
}

/** Commands whose last argument is a query. */
const QUERIES: ReadonlySet<string> = new Set(["search", "history"]);

/**
 * Returns the known word that differs in the fewest letters: at most a third of the letters of `word`, but 1 is always
 * allowed. Undefined if there is none.
 */
export function nearest(word: string, known: Iterable<string>): string | undefined {
  const farthest = Math.max(1, Math.floor(word.length / 3));
  let found: string | undefined;
  let distance = farthest + 1;
  for (const each of known) {
    if (Math.abs(each.length - word.length) >= distance) continue;
    const apart = leven(word, each, { maxDistance: distance });
    if (apart < distance) [found, distance] = [each, apart];
  }
  return found;
}

/**
 * Returns the known id that the user probably meant. If no whole id is similar, returns the beginning of an id that is
 * similar to `word` and as long, for a word of at least 4 characters. Undefined if there is none.
 */
export function nearestId(word: string, ids: readonly string[]): string | undefined {
  const whole = nearest(word, ids);
  if (whole !== undefined || word.length < SHORTEST_BEGINNING) return whole;
  return nearest(word, new Set(ids.map((id) => id.slice(0, word.length))));
}

/** Minimum length of an abbreviated id. */
export const SHORTEST_BEGINNING = 4;

/** Error for an unknown command. It suggests the most similar command, if there is one. */
export function unknownCommand(word: string, program: Command): CommanderError {
  const meant = nearest(
    word,
    program
      .createHelp()
      .visibleCommands(program)
      .map((command) => command.name()),
  );
  const hint = meant === undefined ? "" : `\n(Did you mean ${meant}?)`;
  return new CommanderError(
    WRONG_USAGE,
    "commander.unknownCommand",
    `error: unknown command '${word}'${hint}`,
  );
}
