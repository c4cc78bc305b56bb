import { listSessions, openSession, openStore } from "@espalier/engine";
import { labelsInForce } from "@espalier/session-tree";
import { Argument, type Command, type Option } from "commander";
import { type AddCommand, type Call, command } from "../command.ts";
import { sessionNamed, storeOf } from "../opening.ts";
import type { Shell } from "../shell.ts";
import { plainLine, plainText } from "../text.ts";

/** A completion of the word at the cursor. */
interface Candidate {
  value: string;
  description: string;
}

/** Candidates at the cursor; `files` when a path is possible. */
interface Completion {
  candidates: Candidate[];
  files: boolean;
}

/** Maximum number of sessions and ids that are offered. */
const OFFERED = 50;

/** Minimum length of an id's beginning before ids are offered. */
const ID_BEGINNING = 2;
const NAMES_ENTRY: ReadonlySet<string> = new Set(["id", "from", "a", "b", "into", "at", "until", "expect"]);
const NAMES_FILE: ReadonlySet<string> = new Set(["file", "folder", "place", "what", "out", "from", "to"]);

/**
 * Returns candidates for the last of `words`, the words after `espalier` up to the cursor; the last one is empty at the
 * start of a new word. Commands, options and choices come from the program. Sessions and entries are looked up in the
 * store that the words name, else in the shell's store.
 */
async function completionOf(
  program: Command,
  words: readonly string[],
  shell: Pick<Shell, "store">,
): Promise<Completion> {
  const before = words.slice(0, -1);
  const address = addressIn(before);
  const place = storeOf(address === undefined ? shell : { store: await openStore(address) });
  const typed = words.at(-1) ?? "";
  const { command, given, option } = whereIn(program, before);
  const offered = option
    ? await valuesOf(named(option.attributeName()), option.argChoices, given, typed, place)
    : typed.startsWith("-")
      ? { candidates: optionsOf(program, command), files: false }
      : command === program
        ? { candidates: commandsOf(program), files: false }
        : await argumentsOf(command, given, typed, place);
  return { ...offered, candidates: offered.candidates.filter(({ value }) => isOffered(value, typed)) };
}

/** Returns true when a value begins with the typed text and needs no quotes in a shell. */
const isOffered = (value: string, typed: string): boolean =>
  value.startsWith(typed) && plainText(value) === value && !/[\t\n]/.test(value);

type StorePlace = ReturnType<typeof storeOf>;

/** Value of `--store` among the words before the cursor; undefined for none. */
function addressIn(words: readonly string[]): string | undefined {
  const at = words.lastIndexOf("--store");
  return at >= 0 ? words[at + 1] : words.findLast((word) => word.startsWith(STORE))?.slice(STORE.length);
}

const STORE = "--store=";

/** Position of the cursor in the command's arguments. */
interface Place {
  command: Command;
  /** Arguments before the cursor. */
  given: string[];
  /** Option whose value is at the cursor. */
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

const named = (name: string): string => (name === "extension" || name === "repair" ? "file" : name);

function argumentsOf(
  command: Command,
  given: readonly string[],
  typed: string,
  place: StorePlace,
): Promise<Completion> {
  const { registeredArguments } = command;
  const last = registeredArguments.at(-1);
  const argument: Argument | undefined =
    registeredArguments[given.length] ?? (last?.variadic ? last : undefined);
  return valuesOf(argument?.name() ?? "", argument?.argChoices, given, typed, place);
}

async function valuesOf(
  name: string,
  choices: readonly string[] | undefined,
  given: readonly string[],
  typed: string,
  place: StorePlace,
): Promise<Completion> {
  if (choices) return { candidates: choices.map((value) => ({ value, description: "" })), files: false };
  if (name === "session" || name === "sessions")
    return { candidates: await sessions(typed, place), files: !place.store };
  if (NAMES_ENTRY.has(name) && given[0] !== undefined)
    return { candidates: await entries(given[0], typed, place), files: false };
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

/** Completes a session: ids, and in a store names, that begin with the typed text, newest first; or a path. */
async function sessions(typed: string, place: StorePlace): Promise<Candidate[]> {
  const found: Candidate[] = [];
  // No message can be shown during a completion; `list` shows it.
  const onSkipped = () => undefined;
  if (!place.store && (typed === "" || /[/.]/.test(typed))) return found;
  for await (const { id, ref, name, firstMessage } of listSessions({
    ...place,
    subAgents: true,
    onSkipped,
  })) {
    const value = place.store ? [ref, id].find((one) => one.startsWith(typed)) : id;
    if (value?.startsWith(typed)) found.push({ value, description: plainLine(name ?? firstMessage ?? "") });
    if (found.length === OFFERED) break;
  }
  return found;
}

/** Completes an entry: labels, the words `leaf` and `start`, and ids after their first characters. */
async function entries(ref: string, typed: string, place: StorePlace): Promise<Candidate[]> {
  const session = await openSession(await sessionNamed(place.store, ref), { ...place, mode: "read" });
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
      { value: "leaf", description: "the entry at which the session continues" },
      { value: "start", description: "before the first entry" },
      ...ids,
    ];
  } finally {
    await session.close();
  }
}

/**
 * Script that completes `espalier` in a shell. On Tab it runs `espalier complete -- <words>`, which prints one
 * candidate per line; a last line `:files` adds file names.
 *
 * The words are passed without `eval`, so that a half-typed `$(…)` never runs. Libraries for completion evaluate the
 * line, or cannot offer files together with their own candidates.
 *
 * A candidate may be text of other people, such as a label, so it is inserted quoted. Zsh and fish do this
 * automatically.
 */
const BASH = `# espalier completion for bash: eval "$(espalier completion bash)"
_espalier() {
  local current="\${COMP_WORDS[COMP_CWORD]}" line
  COMPREPLY=()
  while IFS= read -r line; do
    if [ "$line" = ":files" ]; then
      compopt -o filenames 2>/dev/null
      while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$current")
    else
      printf -v line %q "\${line%%$'\\t'*}"
      COMPREPLY+=("$line")
    fi
  done < <(espalier complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _espalier espalier
`;

const ZSH = `#compdef espalier
# espalier completion for zsh: eval "$(espalier completion zsh)"
_espalier() {
  local line
  local -a offered
  while IFS= read -r line; do
    if [[ $line == ":files" ]]; then
      _files
    else
      offered+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
    fi
  done < <(espalier complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)
  _describe espalier offered
}
compdef _espalier espalier
`;

const FISH = `# espalier completion for fish: espalier completion fish | source
function __espalier
  set -l current (commandline -ct)
  for line in (espalier complete -- (commandline -opc)[2..] "$current" 2>/dev/null)
    if test "$line" = ":files"
      __fish_complete_path "$current"
    else
      printf '%s\\n' $line
    end
  end
end
complete -c espalier -f -a '(__espalier)'
`;

const SCRIPTS = { bash: BASH, zsh: ZSH, fish: FISH } as const;

const completion = command({
  usage: "completion",
  description: "print a shell's script that completes commands, options, sessions and entries",
  argument: new Argument("<shell>", "the shell").choices(Object.keys(SCRIPTS)),
  examples: [
    'eval "$(espalier completion bash)"       # in ~/.bashrc',
    'eval "$(espalier completion zsh)"        # in ~/.zshrc, after compinit',
    "espalier completion fish | source        # in ~/.config/fish/config.fish",
  ],
  async run(_: Call<object>, name: keyof typeof SCRIPTS) {
    const script = SCRIPTS[name];
    return { value: { shell: name, script }, lines: script.trimEnd().split("\n") };
  },
});

/** Adds the command that prints a shell's script, and the hidden command that the script calls. */
export const addCompletion: AddCommand = (program, shell) => {
  completion(program, shell);
  program
    .command("complete [words...]", { hidden: true })
    .description("print candidates for the end of a line that is being typed")
    .action(async (words: string[]) => {
      const { candidates, files } = await completionOf(program, words, shell);
      for (const { value, description } of candidates)
        await shell.output.writeLine(`${value}\t${description}`);
      if (files) await shell.output.writeLine(":files");
    });
};
