import { Argument } from "commander";
// Types alone: the installation is loaded when it runs.
import type { AgentName } from "../agents/agents.ts";
import type { InstallPlan } from "../agents/install.ts";
import type { AddCommand, Answer } from "../command.ts";
import { print } from "../shell.ts";
import { plainLine, plainText } from "../text.ts";

/** The agents, here again: the table itself is loaded when it is used. */
const NAMES: readonly AgentName[] = ["claude-code", "codex", "pi"];

interface InstallOptions {
  dryRun?: boolean;
}

function agentCommand(verb: "install" | "uninstall", description: string, examples: string): AddCommand {
  return (program, shell) => {
    program
      .command(verb)
      .description(description)
      .addArgument(new Argument("<agent>", "the agent").choices(NAMES))
      .option("--dry-run", "print what would change, as a diff, and change nothing")
      .addHelpText("after", `\n${NOTES}\n\nExamples:\n${examples}`)
      .action(async (name: AgentName, { dryRun = false }: InstallOptions) => {
        const { planInstall, planUninstall, carryOut, diffOf } = await import("../agents/install.ts");
        const plan = verb === "install" ? planInstall(name) : planUninstall(name);
        if (!dryRun) carryOut(name, plan);
        const diff = () => plan.changes.flatMap((change) => [...diffOf(change)]);
        const { value, lines } = answerOf(name, verb, plan, dryRun ? diff() : undefined);
        await print(shell, value, lines);
      });
  };
}

const NOTES = `In Claude Code: a plugin (hooks, the server of \`espalier mcp\`, a skill) and a status line, unless you have one. In Codex:
hooks and the server. In Pi: a package. Settings files of the agent keep every other byte. The removal leaves them as they
were before, or takes only these keys out if they were changed since. What hooks could not do is in
~/.espalier/agents/hooks/hooks.log.`;

function answerOf(
  agent: AgentName,
  verb: "install" | "uninstall",
  { agent: { label }, changes, notes }: InstallPlan,
  diff: string[] | undefined,
): Answer {
  const changed = changes.filter(({ before, after }) => before !== after);
  const files = changed.map(({ file, before, after }) => ({
    file,
    change: before === undefined ? "create" : after === undefined ? "delete" : "change",
  }));
  const isDone = changed.length === 0;
  const done =
    verb === "install" ? `Espalier is installed in ${label}` : `Espalier is not in ${label} any more`;
  const sentence = isDone ? `${done}; nothing was changed.` : `${done}.`;
  const told = verb === "install" && !isDone ? notes : [];
  return {
    value: { agent, files, notes: told, ...(diff ? { diff } : {}) },
    lines: diff
      ? isDone
        ? ["Nothing would be changed."]
        : diff.map(plainText)
      : [...files.map(({ file, change }) => `${change.padEnd(6)} ${plainLine(file)}`), sentence, ...told],
  };
}

/** Commands that put Espalier into other agents. */
export const agentCommands = [
  agentCommand(
    "install",
    "put recall, rules and imports into another agent: claude-code, codex or pi",
    "  espalier install claude-code --dry-run\n  espalier install codex",
  ),
  agentCommand("uninstall", "take Espalier out of another agent again", "  espalier uninstall claude-code"),
] as const;
