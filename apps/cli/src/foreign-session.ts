import { CommandError } from "./failure.ts";

/** What people call the agents whose files are not ours. Pi's are. */
const FOREIGN: Readonly<Record<string, string>> = { "claude-code": "Claude Code", codex: "Codex" };

/** The name of the agent that wrote a file in a format of its own; undefined for every other file. */
export async function foreignAgentOf(file: string): Promise<string | undefined> {
  const { agentOfFile } = await import("@espalier/interop/node");
  return FOREIGN[agentOfFile(file)?.agent ?? ""];
}

/** @throws CommandError `foreign` for a file that has to be imported first */
export async function refuseForeign(file: string): Promise<void> {
  const agent = await foreignAgentOf(file);
  if (agent === undefined) return;
  throw new CommandError(
    "foreign",
    `${file} is a session of ${agent}; \`espalier import ${file}\` brings it here, and \`espalier demo\` takes it as it is.`,
  );
}
