import { listSessions, openSession } from "@espalier/engine";
import { labelsInForce } from "@espalier/session-tree";
import type { Argument, Command, Option } from "commander";
import { plainLine } from "../plain-text.ts";

/** A word that could stand where the cursor is. */
interface Candidate {
  value: string;
  description: string;
}

/** What can stand where the cursor is; `files` when a path can. */
export interface Completion {
  candidates: Candidate[];
  files: boolean;
}

/** How many sessions and how many ids are offered at most: more is no help. */
const OFFERED = 50;

/** The shortest beginning of an id that is completed. */
const ID_BEGINNING = 2;

const NAMES_ENTRY: ReadonlySet<string> = new Set(["id", "from", "a", "b", "into", "at", "until"]);
const NAMES_FILE: ReadonlySet<string> = new Set(["file", "folder", "path", "out", "dir", "to"]);

/**
 * What can stand for the last of `words`, the words after `espalier` up to the cursor: the last is empty when a new word
 * begins. The program says which commands, options and choices there are; sessions and entries are looked up.
 */
export async function completionOf(program: Command, words: readonly string[]): Promise<Completion> {
  const typed = words.at(-1) ?? "";
  const { command, given, option } = whereIn(program, words.slice(0, -1));
  const offered = option
    ? await valuesOf(named(option.attributeName()), option.argChoices, given, typed)
    : typed.startsWith("-")
      ? { candidates: optionsOf(program, command), files: false }
      : command === program
        ? { candidates: commandsOf(program), files: false }
        : await argumentsOf(command, given, typed);
  return { ...offered, candidates: offered.candidates.filter(({ value }) => value.startsWith(typed)) };
}

/** How far the words before the cursor have come. */
interface Place {
  command: Command;
  /** The arguments that the command has got. */
  given: string[];
  /** The option whose value comes next. */
  option: Option | undefined;
}

function whereIn(program: Command, words: readonly string[]): Place {
  let command = program;
  let option: Option | undefined;
  const given: string[] = [];
  for (const word of words) {
    if (option) option = undefined;
    else if (word.startsWith("-")) option = takingValue(program, command, word);
    else if (command === program) command = program.commands.find((one) => one.name() === word) ?? program;
    else given.push(word);
  }
  return { command, given, option };
}

function takingValue(program: Command, command: Command, word: string): Option | undefined {
  const option = [...command.options, ...program.options].find(
    ({ long, short }) => long === word || short === word,
  );
  return option?.required ? option : undefined;
}

/** What a value is called, whatever it is an argument or an option of. */
const named = (name: string): string => (name === "extension" || name === "repair" ? "file" : name);

function argumentsOf(command: Command, given: readonly string[], typed: string): Promise<Completion> {
  const { registeredArguments } = command;
  const last = registeredArguments.at(-1);
  const argument: Argument | undefined =
    registeredArguments[given.length] ?? (last?.variadic ? last : undefined);
  return valuesOf(argument?.name() ?? "", argument?.argChoices, given, typed);
}

async function valuesOf(
  name: string,
  choices: readonly string[] | undefined,
  given: readonly string[],
  typed: string,
): Promise<Completion> {
  if (choices) return { candidates: choices.map((value) => ({ value, description: "" })), files: false };
  if (name === "session") return { candidates: await sessions(typed), files: true };
  if (NAMES_ENTRY.has(name) && given[0] !== undefined)
    return { candidates: await entries(given[0], typed), files: false };
  return { candidates: [], files: NAMES_FILE.has(name) };
}

const commandsOf = (program: Command): Candidate[] =>
  program
    .createHelp()
    .visibleCommands(program)
    .map((command) => ({ value: command.name(), description: command.description() }));

const optionsOf = (program: Command, command: Command): Candidate[] =>
  [...command.options, ...(command === program ? [] : program.options)].flatMap(
    ({ long, hidden, description }) => (long && !hidden ? [{ value: long, description }] : []),
  );

/** Sessions whose id begins so, the newest first. A path is completed as a path. */
async function sessions(typed: string): Promise<Candidate[]> {
  const found: Candidate[] = [];
  if (typed === "" || /[/.]/.test(typed)) return found;
  for await (const { id, name, firstMessage } of listSessions()) {
    if (id.startsWith(typed)) found.push({ value: id, description: plainLine(name ?? firstMessage ?? "") });
    if (found.length === OFFERED) break;
  }
  return found;
}

/** Labels, the two places that have a word, and ids once their beginning is there. */
async function entries(ref: string, typed: string): Promise<Candidate[]> {
  const session = await openSession(ref, { mode: "read" });
  try {
    const { tree } = session;
    const labels = [...labelsInForce(tree)].map(([id, { label }]) => ({
      value: label,
      description: `label of ${id}`,
    }));
    const ids: Candidate[] = [];
    if (typed.length >= ID_BEGINNING) {
      for (const id of tree.ids()) {
        if (id.startsWith(typed)) ids.push({ value: id, description: tree.entryAt(tree.row(id)).type });
        if (ids.length === OFFERED) break;
      }
    }
    return [
      ...labels,
      { value: "leaf", description: "where the session goes on" },
      { value: "start", description: "before the first entry" },
      ...ids,
    ];
  } finally {
    await session.close();
  }
}
