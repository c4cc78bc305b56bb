import { camelCase, type SettingsLayer } from "./settings-layer.ts";

const PREFIX = "ESPALIER_COMPACT_";

/** What is behind `SYNAPSE_COMPACT_`, and behind ours too where the two names differ. */
const OF_SYNAPSE: Readonly<Record<string, string>> = {
  TRIGGER_THRESHOLD: "triggerTokens",
  TARGET_TOKENS: "targetTokens",
  PRESERVE_COUNT: "preserveCount",
  MODEL: "model",
  RETRY_COUNT: "retryCount",
};

/**
 * What the environment says: `ESPALIER_COMPACT_` and any key in capitals (`ESPALIER_COMPACT_KEEP_RECENT_TOKENS`), and
 * below them the five variables of origins 003 that begin with `SYNAPSE_COMPACT_`. An empty one says nothing.
 */
export function readEnvironment(environment: NodeJS.ProcessEnv): SettingsLayer {
  const values: Record<string, string> = {};
  const variables: Record<string, string> = {};
  const read = (key: string, variable: string) => {
    const text = environment[variable]?.trim();
    if (!text) return;
    values[key] = text;
    variables[key] = variable;
  };
  for (const [name, key] of Object.entries(OF_SYNAPSE)) read(key, `SYNAPSE_COMPACT_${name}`);
  const ours = Object.keys(environment).filter((variable) => variable.startsWith(PREFIX));
  // Where a setting has two names, the one like its key stands: it is read last.
  for (const variable of [...ours.filter(isAlias), ...ours.filter((name) => !isAlias(name))]) {
    const name = variable.slice(PREFIX.length);
    read(OF_SYNAPSE[name] ?? camelCase(name.toLowerCase()), variable);
  }
  return { origin: "environment", file: null, values, variables };
}

const isAlias = (variable: string): boolean => variable === `${PREFIX}TRIGGER_THRESHOLD`;
