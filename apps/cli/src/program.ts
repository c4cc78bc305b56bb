import { resolve } from "node:path";
import { openStore } from "@espalier/engine";
import { Command, Option } from "commander";
import { addAppend } from "./commands/append.ts";
import { addChat } from "./commands/chat.ts";
import { addCompact } from "./commands/compact.ts";
import { addCompletion } from "./commands/completion.ts";
import { addConfig } from "./commands/config.ts";
import { addContext } from "./commands/context.ts";
import { addCopy } from "./commands/copy.ts";
import { addDelete } from "./commands/delete.ts";
import { addDemo } from "./commands/demo.ts";
import { addDiff } from "./commands/diff.ts";
import { addDoctor } from "./commands/doctor.ts";
import { addExport } from "./commands/export.ts";
import { addFork } from "./commands/fork.ts";
import { addHide } from "./commands/hide.ts";
import { addHistory } from "./commands/history.ts";
import { addImport } from "./commands/import.ts";
import { addLabel } from "./commands/label.ts";
import { addList } from "./commands/list.ts";
import { addMerge } from "./commands/merge.ts";
import { addName } from "./commands/name.ts";
import { addNavigate } from "./commands/navigate.ts";
import { addOpen } from "./commands/open.ts";
import { addPin } from "./commands/pin.ts";
import { addPolicies } from "./commands/policies.ts";
import { addReplay } from "./commands/replay.ts";
import { addRun } from "./commands/run.ts";
import { addSearch } from "./commands/search.ts";
import { addServe } from "./commands/serve.ts";
import { addShow } from "./commands/show.ts";
import { addStats } from "./commands/stats.ts";
import { addStore } from "./commands/store.ts";
import { addSummarize } from "./commands/summarize.ts";
import { addTree } from "./commands/tree.ts";
import { addTrust } from "./commands/trust.ts";
import { addUndo } from "./commands/undo.ts";
import type { Shell } from "./shell.ts";

/** The command line: every command is a file in `commands/` and a line here, in the order of the help. */
const COMMANDS = [
  addOpen,
  addTree,
  addContext,
  addShow,
  addList,
  addSearch,
  addHistory,
  addDiff,
  addStats,
  addAppend,
  addNavigate,
  addUndo,
  addFork,
  addLabel,
  addName,
  addPin,
  addHide,
  addReplay,
  addCompact,
  addPolicies,
  addMerge,
  addRun,
  addSummarize,
  addImport,
  addExport,
  addServe,
  addChat,
  addConfig,
  addTrust,
  addDoctor,
  addCopy,
  addStore,
  addDelete,
  addDemo,
  addCompletion,
];

export function createProgram(shell: Shell): Command {
  const version = process.env["ESPALIER_VERSION"] ?? "development";
  const program = new Command("espalier")
    .description("Walk, branch, fork and replay the sessions of LLM agents.")
    .usage("<command> [arguments] [options]")
    .version(shell.json ? JSON.stringify({ version }) : version, "-V, --version", "print the version")
    .helpOption("-h, --help", "explain a command")
    .helpCommand("help [command]", "explain a command")
    .option("--json", "print JSON and nothing else")
    .addOption(
      new Option("--extension <file>", "load an extension for this call; repeatable").argParser(
        (file: string, files: string[] = []) => [...files, resolve(file)],
      ),
    )
    .addOption(
      new Option("--on-busy <choice>", "where another process writes the session").choices([
        "error",
        "read-only",
        "fork",
        "share",
      ]),
    )
    .option("--trace", "say on stderr how much of a session's file was read to open it")
    .option("--summarizer <name>", "who writes summaries: extractive, anthropic or anthropic:MODEL")
    .option("--fallback", "when a summarizer that was named fails, let the extractive one step in")
    .addOption(
      new Option("--store <address>", "where sessions are: postgres://… instead of files").env(
        "ESPALIER_STORE",
      ),
    )
    .hook("preAction", async () => {
      shell.globals = program.opts();
      const { store } = shell.globals;
      shell.store = store === undefined ? undefined : await openStore(store);
    })
    .exitOverride()
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => void shell.output.write(text),
      // Wrong usage is told once, where all failures are.
      writeErr: () => undefined,
      getOutHasColors: () => shell.colours.isColorSupported,
    })
    .addHelpText("after", GENERAL);
  for (const add of COMMANDS) add(program, shell);
  return program;
}

const GENERAL = `
<session> is a file, or the id of a session below ~/.espalier/sessions (its beginning is enough); with --store it is the
name of a session in that store. An address with a password is better kept in ESPALIER_STORE than typed.
<id> names an entry: its id, the beginning of it (at least 4 characters), its label (or @label),
\`leaf\` for where the session goes on, \`start\` for the place before its first entry.

With --json a failure is {"error":{"code","message"}}. Exit code: 0 done, 1 it did not happen, 2 wrong usage.`;
