// Separate from program.ts: each group of commands has a file.
import { realpathSync } from "node:fs";
import { homedir } from "node:os";
import {
  type LeftOutSetting,
  listSessions,
  migrateStore,
  openSession,
  openStore,
  openTrust,
  POLICY_NAMES,
  SETTINGS,
  type SettingOrigin,
  settingsJsonSchema,
} from "@espalier/engine";
import { labelsInForce } from "@espalier/session-tree";
import type { Argument, Command, Option } from "commander";
import { type AddCommand, command } from "../command.ts";
import { CommandError } from "../failure.ts";
import { currentSettings, sessionNamed, storeOf } from "../opening.ts";
import type { Look, Shell } from "../shell.ts";
import { columnsOf, plainLine, plainText, wrapToColumns } from "../text.ts";

/** Replaces the value of an API key with `(set)`. */
const withoutKey = (setting: SettingOrigin): SettingOrigin =>
  setting.key.endsWith("ApiKey") && setting.value != null ? { ...setting, value: "(set)" } : setting;

/** Draws the current settings by policy: defaults are dim, ignored settings come last. */
function* viewSettings(
  settings: readonly SettingOrigin[],
  leftOut: readonly LeftOutSetting[],
  { colours, columns }: Look,
): Generator<string> {
  const rows = settings.map((setting) => ({ ...setting, text: textOf(setting.value) }));
  const keyWidth = widest(rows.map(({ key }) => key));
  const valueWidth = widest(rows.map(({ text }) => text));
  const current = settings.find(({ key }) => key === "policy")?.value;
  for (const policy of [undefined, ...POLICY_NAMES]) {
    if (policy) yield "";
    yield colours.bold(`${policy ?? "every policy"}${policy === current ? " (the current policy)" : ""}`);
    for (const { key, text, origin, file, variable } of rows) {
      const { about, policy: reader } = SETTINGS[key];
      if (reader !== policy) continue;
      const place = file ?? variable;
      const from =
        origin === "default" ? "" : ` (${place === null ? origin : `${origin}: ${plainLine(place)}`})`;
      const row = `  ${key.padEnd(keyWidth)}  ${text.padEnd(valueWidth)}  `;
      const indent = columnsOf(row);
      const meaning = wrapToColumns(`${about}${from}`, columns - indent).replaceAll(
        "\n",
        `\n${" ".repeat(indent)}`,
      );
      yield origin === "default" ? `${row}${colours.dim(meaning)}` : `${colours.bold(row)}${meaning}`;
    }
  }
  if (leftOut.length === 0) return;
  yield "";
  yield colours.dim("ignored, because the project is not trusted in its current state:");
  for (const { key, file, effect } of leftOut)
    yield `${key.padEnd(keyWidth)}  ${EFFECTS[effect]}  ${colours.dim(plainLine(file))}`;
}

/** Reasons to ignore a setting of an untrusted project. */
const EFFECTS: Readonly<Record<LeftOutSetting["effect"], string>> = {
  runs: "runs code",
  sends: "chooses the receiver of messages",
  spends: "decides how often and how much is sent",
};

function textOf(value: unknown): string {
  if (Array.isArray(value)) return plainLine(value.join(", ")) || "-";
  if (value === null) return "-";
  return plainLine(typeof value === "object" ? JSON.stringify(value) : String(value));
}

const widest = (texts: readonly string[]): number => Math.max(5, ...texts.map(({ length }) => length));

/** A completion of the word at the cursor. */
interface Candidate {
  value: string;
  description: string;
}

/** Candidates at the cursor. `files`: true when a path is possible, so that the shell adds names of files. */
interface Completion {
  candidates: Candidate[];
  files: boolean;
}

/** Maximum number of sessions and ids that are offered. */
const OFFERED = 50;

/** Minimum length of an id's beginning before ids are offered. */
const ID_BEGINNING = 2;

/** Arguments and options that name an entry, and those that name a file or a folder. */
const NAMES_ENTRY = /^(id|from|a|b|into|at|until|expect)$/;
const NAMES_FILE = /^(file|folder|place|what|out|from|to|extension|repair)$/;

/**
 * Returns candidates for the last of `words`, the words after `espalier` up to the cursor; the last one is empty at the
 * start of a new word. Commands, options and choices come from the program. Sessions and entries are looked up in the
 * store that the words name, else in the shell's store.
 */
async function completionOf(program: Command, words: readonly string[], shell: Pick<Shell, "store">) {
  const typed = words.at(-1) ?? "";
  const { command, given, option, address } = whereIn(program, words.slice(0, -1));
  const place = storeOf(address === undefined ? shell : { store: await openStore(address) });
  const offered = option
    ? await valuesOf(option.attributeName(), option.argChoices, given, typed, place)
    : typed.startsWith("-")
      ? { candidates: optionsOf(program, command), files: false }
      : command === program
        ? { candidates: commandsOf(program), files: false }
        : await argumentsOf(command, given, typed, place);
  return { ...offered, candidates: offered.candidates.filter(({ value }) => isOffered(value, typed)) };
}

/** Returns true for a value that begins with the typed text and has no control sequence, tab or newline. */
const isOffered = (value: string, typed: string): boolean =>
  value.startsWith(typed) && plainText(value) === value && !/[\t\n]/.test(value);

type StorePlace = ReturnType<typeof storeOf>;

interface Place {
  command: Command;
  given: string[];
  /** Option whose value is at the cursor. */
  option: Option | undefined;
  /** Value of `--store`. */
  address: string | undefined;
}

function whereIn(program: Command, words: readonly string[]): Place {
  const place: Place = { command: program, given: [], option: undefined, address: undefined };
  for (const word of words) {
    const { command, given, option } = place;
    place.option = undefined;
    if (option?.long === "--store") place.address = word;
    else if (word.startsWith(STORE)) place.address = word.slice(STORE.length);
    else if (option) continue;
    else if (word.startsWith("-"))
      place.option = [...command.options, ...program.options].find(
        ({ long, short, required }) => required && (long === word || short === word),
      );
    else if (command === program)
      place.command = program.commands.find((one) => one.name() === word) ?? program;
    else given.push(word);
  }
  return place;
}

const STORE = "--store=";

function argumentsOf(command: Command, given: readonly string[], typed: string, place: StorePlace) {
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
    return { candidates: await sessionCandidates(typed, place), files: !place.store };
  if (NAMES_ENTRY.test(name) && given[0] !== undefined)
    return { candidates: await entryCandidates(given[0], typed, place), files: false };
  return { candidates: [], files: NAMES_FILE.test(name) };
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

/**
 * Completes a session: at most 50 ids, and in a store names, that begin with the typed text, newest first. Without a
 * store there are none for an empty text, or for one with `/` or `.`, which is a path.
 */
async function sessionCandidates(typed: string, place: StorePlace): Promise<Candidate[]> {
  const found: Candidate[] = [];
  if (!place.store && (typed === "" || /[/.]/.test(typed))) return found;
  // No message can be shown during a completion; `list` shows it.
  const options = { ...place, subAgents: true, onSkipped: () => undefined };
  for await (const { id, ref, name, firstMessage } of listSessions(options)) {
    const value = place.store ? [ref, id].find((one) => one.startsWith(typed)) : id;
    // A file for another agent can have the id of the session that it continues.
    if (value?.startsWith(typed) && !found.some((other) => other.value === value))
      found.push({ value, description: plainLine(name ?? firstMessage ?? "") });
    if (found.length === OFFERED) break;
  }
  return found;
}

/** Completes an entry: labels, the words `leaf` and `start`, and ids after their first characters. */
async function entryCandidates(ref: string, typed: string, place: StorePlace): Promise<Candidate[]> {
  // No shell has expanded the word.
  const named = await sessionNamed(place.store, ref.replace(/^~(?=\/)/, homedir));
  const session = await openSession(named, { ...place, mode: "read" });
  try {
    const { tree } = session;
    const labels = [...labelsInForce(tree)].map(([id, { label }]) => ({
      value: label,
      description: `label of ${id}`,
    }));
    const ids: Candidate[] = [];
    for (const id of typed.length < ID_BEGINNING ? [] : tree.ids()) {
      if (id.startsWith(typed)) ids.push({ value: id, description: tree.entryAt(tree.row(id)).type });
      if (ids.length === OFFERED) break;
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
  done < <(espalier complete --quoted -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
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
  done < <(espalier complete -- "\${(@Q)words[2,CURRENT]}" 2>/dev/null)
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
  usage: "completion <shell>",
  description: "print a shell's script that completes commands, options, sessions and entries",
  argument: ["the shell", Object.keys(SCRIPTS)],
  examples: [
    'eval "$(espalier completion bash)"       # in ~/.bashrc',
    'eval "$(espalier completion zsh)"        # in ~/.zshrc, after compinit',
    "espalier completion fish | source        # in ~/.config/fish/config.fish",
  ],
  async run(_, name) {
    const script = SCRIPTS[name as keyof typeof SCRIPTS];
    return { value: { shell: name, script }, lines: script.trimEnd().split("\n") };
  },
});

/** Removes the quotes of bash from a word, which may end inside of them; expands nothing. */
const unquoted = (word: string): string =>
  word.replace(
    /\\(.)|'([^']*)'?|"((?:\\.|[^"\\])*)"?/gs,
    (_, escaped?: string, single?: string, double?: string) =>
      escaped ?? single ?? double?.replace(/\\(["\\$`])/g, "$1") ?? "",
  );

/** Adds the command that prints a shell's script, and the hidden command that the script calls. */
const addCompletion: AddCommand = (program, shell) => {
  completion(program, shell);
  program
    .command("complete [words...]", { hidden: true })
    .description("print candidates for the end of a line that is being typed")
    .option("--quoted", "the words are as they were typed, with the quotes of bash")
    .action(async (words: string[], { quoted = false }: { quoted?: boolean }) => {
      const given = quoted ? words.map(unquoted) : words;
      const { candidates, files } = await completionOf(program, given, shell);
      for (const { value, description } of candidates)
        await shell.output.writeLine(`${value}\t${description}`);
      if (files) await shell.output.writeLine(":files");
    });
};

/** Commands for the store, the settings, the trust in a project, and the completion in a shell. */
export const setupCommands: readonly AddCommand[] = [
  command({
    usage: "store <action>",
    description: "set up the store of --store: migrate creates its tables, or updates them",
    argument: ["the action", ["migrate"]],
    examples: ["ESPALIER_STORE=postgres://localhost/agents espalier store migrate"],
    async run({ shell }) {
      const { store } = shell.globals;
      if (store === undefined)
        throw new CommandError("usage", "Name the store by --store or ESPALIER_STORE.");
      const report = await migrateStore(store);
      for (const warning of report.warnings) shell.complain(warning);
      const { applied, place, version } = report;
      const line =
        applied.length > 0
          ? `${place} was updated to version ${version}: ${applied.join(", ")}.`
          : `${place} is up to date.`;
      return { value: report, lines: [line] };
    },
  }),
  command({
    usage: "config",
    description: "print the current settings, and the source of each",
    options: [
      ["--model <id>", "include the settings for this model"],
      ["--schema", "print the JSON Schema of a settings file instead, for editors"],
    ],
    notes: `Settings are read from ~/.espalier/settings.json (or .toml), then .espalier/settings.json (or .toml) of this folder,
then ESPALIER_COMPACT_* in the environment (ESPALIER_COMPACT_KEEP_RECENT_TOKENS=8000), then the options of a command;
a later source overrides an earlier one. Those of a project are used once it is trusted: \`espalier trust\`. Sizes are
tokens or shares of the model's window; "models" has the settings of single models.

A settings file:
  {
    "policy": "sliding-window",
    "keepRecentTokens": 0.1,
    "models": { "claude-opus-4": { "reserveTokens": 32000 } }
  }`,
    examples: ["espalier config", "espalier config --model anthropic/claude-opus-4"],
    async run({ shell, options: { model, schema } }) {
      if (schema) {
        const value = await settingsJsonSchema();
        return { value, lines: [JSON.stringify(value, null, 2)] };
      }
      const { origins: all, ignored, leftOut } = await currentSettings(shell, () => model);
      const origins = all.map(withoutKey);
      for (const sentence of ignored) shell.complainOnce(sentence);
      const value = origins.map(({ key, value, origin, file }) => {
        const out = leftOut.find((setting) => setting.key === key);
        return { key, value, origin, file, leftOut: out && { file: out.file, effect: out.effect } };
      });
      return { value, lines: viewSettings(origins, leftOut, shell) };
    },
  }),
  command({
    usage: "trust [folder]",
    description:
      "trust the settings and extensions of a project in their current state; by default of this folder",
    options: [
      ["--revoke", "stop trusting the project"],
      ["--list", "list the trusted folders"],
    ],
    notes: `Trust covers the current state of the settings in .espalier, all files in .espalier/extensions, and the modules that the
settings name. After a change to one of them, nothing of the project is used until you trust it again. Modules that these import
from elsewhere are not covered.`,
    examples: ["espalier trust", "espalier trust ../other --revoke"],
    async run({ options: { list = false, revoke = false } }, folder) {
      const trust = openTrust();
      if (list) {
        const folders = trust.list();
        return { value: { folders }, lines: folders.length > 0 ? folders : ["No folder is trusted."] };
      }
      const project = folder ?? process.cwd();
      if (revoke) trust.revoke(project);
      else await trust.trust(project);
      const trusted = trust.isTrusted(project);
      const line = trusted
        ? `Settings and extensions of ${project} are trusted in their current state.`
        : `Settings and extensions of ${project} are no longer used.`;
      return { value: { folder: trusted ? realpathSync(project) : project, trusted }, lines: [line] };
    },
  }),
  addCompletion,
];
