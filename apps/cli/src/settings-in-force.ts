import {
  type OpenOptions,
  type ResolvedSettings,
  resolvePolicy,
  resolveSettings,
  resolveSummarizer,
  type Settings,
  sessionOptionsOf,
} from "@espalier/engine";
import type { Shell } from "./shell.ts";

/**
 * The settings in force here, what the command line says above them; `modelOf` names the model whose own settings
 * count. The project is the folder in which the command runs.
 *
 * @param above what stands above all else
 */
export function settingsInForce(
  { globals }: Pick<Shell, "globals">,
  modelOf: () => string | undefined = () => undefined,
  above: Partial<Settings> = {},
): Promise<ResolvedSettings> {
  const { summarizer, fallback } = globals;
  const flags = {
    ...(summarizer === undefined ? {} : { summarizer }),
    ...(fallback === undefined ? {} : { fallback }),
    ...above,
  };
  return resolveSettings({ flags, model: modelOf });
}

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
  for (const sentence of ignored) shell.complain(sentence);
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
