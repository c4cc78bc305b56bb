import { type Command, CommanderError } from "commander";
import leven from "leven";
import { plainLine } from "./text.ts";

/** A command that did not do what it was asked for, as it is told: by code to programs, by a sentence to people. */
interface Failure {
  code: string;
  message: string;
  exitCode: number;
  /** The extension that vetoed it, and its reason; absent for every other failure. */
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
  | "bad-input" // a line of stdin that cannot be understood
  | "confirm" // something that cannot be undone was not confirmed
  | "damaged" // the line of an entry that cannot be read any more
  | "not-found" // a folder that does not exist
  | "foreign" // a session in the format of another agent, which has to be imported first
  | "exists" // a session or a folder is in the place of a new file
  | "verify" // a replay that differs from what was built anew
  | "changed" // a file that should not have been touched
  | "settings" // a settings file of another agent that cannot be changed safely
  | "output" // stdout accepts nothing
  | "no-key" // a model needs an API key, and there is none
  | "model" // the model did not answer
  | "aborted"; // interrupted before it was done

const WRONG_USAGE = 2;

/** Describes a thrown value; `command` names the command, where it is known. */
export function failureOf(error: unknown, command = ""): Failure {
  if (error instanceof CommanderError) {
    return { code: "usage", message: usageSentence(error.message, command), exitCode: WRONG_USAGE };
  }
  if (!(error instanceof Error)) return { code: "internal", message: String(error), exitCode: 1 };
  const { code, by, reason } = error as { code?: unknown; by?: unknown; reason?: unknown };
  const exitCode = code === "usage" ? WRONG_USAGE : code === "aborted" ? INTERRUPTED : 1;
  return {
    code: typeof code === "string" ? code : "internal",
    message: plainLine(error.message),
    exitCode,
    ...(typeof by === "string" ? { by } : {}),
    ...(typeof reason === "string" ? { reason } : {}),
  };
}

/** Exit code of a process that ended by SIGINT. */
export const INTERRUPTED = 130;

function usageSentence(message: string, command: string): string {
  // What commander says when it would show the help instead.
  if (message === "(outputHelp)") return "Name a command; `espalier --help` lists them.";
  const [first = "", ...rest] = message.replace(/^error: /, "").split("\n");
  const sentence = `${first.charAt(0).toUpperCase()}${first.slice(1)}.`;
  const hint = rest.join(" ").trim();
  return plainLine(
    `${sentence.replace(/\.\.$/, ".")} ${hint} See \`espalier ${command && `${command} `}--help\`.`,
  );
}

/** The known word that somebody probably meant: the nearest within a third of its letters; undefined for none. */
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

/** The known id that a user probably meant, or as much of one as the user gave; undefined for none. */
export function nearestId(word: string, ids: readonly string[]): string | undefined {
  const whole = nearest(word, ids);
  if (whole !== undefined || word.length < SHORTEST) return whole;
  return nearest(word, new Set(ids.map((id) => id.slice(0, word.length))));
}

/** Characters of the beginning of an id that are compared, at least. */
const SHORTEST = 4;

/** The error for a word in the place of a command, with the command that was probably meant. */
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
