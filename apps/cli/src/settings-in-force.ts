import { createInterface } from "node:readline/promises";
import {
  type ConfirmTrust,
  type OpenOptions,
  openTrust,
  type ProjectTrust,
  type ResolvedSettings,
  resolvePolicy,
  resolveSettings,
  resolveSummarizer,
  type Settings,
  sessionOptionsOf,
} from "@espalier/engine";
import { plainLine } from "./plain-text.ts";
import type { Shell } from "./shell.ts";

/**
 * The settings in force here, what the command line says above them; `modelOf` names the model whose own settings
 * count. The project is the folder in which the command runs.
 *
 * @param above what stands above all else
 */
export function settingsInForce(
  shell: Shell,
  modelOf: () => string | undefined = () => undefined,
  above: Partial<Settings> = {},
): Promise<ResolvedSettings> {
  const { summarizer, fallback } = shell.globals;
  const flags = {
    ...(summarizer === undefined ? {} : { summarizer }),
    ...(fallback === undefined ? {} : { fallback }),
    ...above,
  };
  return resolveSettings({ flags, model: modelOf, confirmTrust: confirmTrust(shell) });
}

/** Asks a person about a project that changed since it was trusted, once a command; without a terminal it does not count. */
export const confirmTrust =
  (shell: Shell): ConfirmTrust =>
  (project) => {
    if (!shell.interactive) return false;
    const answer = shell.trustAnswers.get(project.folder) ?? ask(project);
    shell.trustAnswers.set(project.folder, answer);
    return answer;
  };

/** Asks about the folder in which the command runs, for what draws on the terminal and cannot ask later. */
export async function askAboutProject(shell: Shell): Promise<void> {
  const trust = openTrust();
  const project = trust.look(process.cwd());
  if (project.state === "changed" && (await confirmTrust(shell)(project))) await trust.trust(project.folder);
}

async function ask({ folder, changes }: ProjectTrust): Promise<boolean> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const lines = [
      `${folder} has changed since you trusted it:`,
      ...changes.slice(0, MOST_CHANGES).map((path) => `  ${path}`),
      ...(changes.length > MOST_CHANGES ? [`  and ${changes.length - MOST_CHANGES} more`] : []),
      "Its settings may spend and its extensions run code. Trust it as it is now? [y/N] ",
    ];
    const answer = await terminal.question(lines.map(plainLine).join("\n"));
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    terminal.close();
  }
}

/** Files that a question names. */
const MOST_CHANGES = 10;

/**
 * Brings the settings in force into the session that is opened. Who writes its summaries is found only for what
 * `summarizes`, and where the policy compacts behind an append: nobody needs a key to give an entry a label.
 */
export function settledBy(
  shell: Shell,
  { summarizes = false }: { summarizes?: boolean } = {},
): NonNullable<OpenOptions["settle"]> {
  return async (modelOf) => settled(shell, await settingsInForce(shell, modelOf), summarizes);
}

/** What settings make of a session; says which of them do not count. */
export function settled(
  shell: Shell,
  { values, ignored }: Pick<ResolvedSettings, "values" | "ignored">,
  summarizes: boolean,
) {
  for (const sentence of ignored) shell.complainOnce(sentence);
  return {
    ...sessionOptionsOf(values),
    extensions: [...values.extensions, ...(shell.globals.extension ?? [])],
    ...(summarizes || compactsBehindAppends(values) ? summarizerOf(shell, values) : {}),
  };
}

const compactsBehindAppends = ({ autoCompact, policy }: Settings): boolean =>
  autoCompact && resolvePolicy(policy).judgedAt === "append";

/**
 * Who writes summaries: the one that was named, else the one of the settings, else the usual one. One that the command
 * line names fails with its own error unless a fallback is wanted.
 */
export function summarizerOf(
  { globals }: Pick<Shell, "globals">,
  settings: Pick<Settings, "summarizer" | "model" | "fallback">,
): Required<Pick<OpenOptions, "summarizer" | "fallback">> {
  const name = globals.summarizer ?? settings.summarizer ?? (canAskClaude() ? "anthropic" : "extractive");
  const { model } = settings;
  return {
    summarizer: resolveSummarizer(name === "anthropic" && model !== undefined ? `anthropic:${model}` : name),
    fallback: globals.fallback ?? settings.fallback ?? globals.summarizer === undefined,
  };
}

const canAskClaude = (): boolean => Boolean(process.env["ANTHROPIC_API_KEY"]);
