// Separate from local-agents.ts: a page names agents without their importers.

/** An agent whose sessions can be read. */
export interface OtherAgent {
  /** Name in commands, and in `importedFrom` of a session. */
  readonly agent: string;
  /** Name for people. */
  readonly title: string;
  /**
   * True: its files have a format of their own, and its sessions are listed after an import. False: its files have the
   * session format, and are opened where they are.
   */
  readonly isConverted: boolean;
}

/**
 * Agents whose sessions can be read, in the order of lists. Choices, help and titles of the command and the viewer come
 * from here; folders and importers are in `PLACES` (`../node/local-agents.ts`).
 */
export const otherAgents = [
  { agent: "claude-code", title: "Claude Code", isConverted: true },
  { agent: "codex", title: "Codex", isConverted: true },
  { agent: "pi", title: "Pi", isConverted: false },
] as const satisfies readonly OtherAgent[];

/** Names of all agents of which a session can be; `espalier` is this program. */
export const agentNames: readonly string[] = ["espalier", ...otherAgents.map(({ agent }) => agent)];

/** Returns the name of an agent for people: that of an unknown agent unchanged. */
export function agentTitle(name: string): string {
  if (name === "espalier") return "Espalier";
  return otherAgents.find(({ agent }) => agent === name)?.title ?? name;
}
