import { realpathSync } from "node:fs";
import {
  type LeftOutSetting,
  migrateStore,
  openTrust,
  type SettingOrigin,
  settingsJsonSchema,
} from "@espalier/engine";
import { type Call, command } from "../command.ts";
import { CommandError } from "../failure.ts";
import { currentSettings } from "../opening.ts";
import type { Shell } from "../shell.ts";
import { columnsOf, plainLine, wrapToColumns } from "../text.ts";

const config = command({
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
  async run({ shell, options: { model, schema } }: Call<{ model?: string; schema?: boolean }>) {
    if (schema) {
      const value = await settingsJsonSchema();
      return { value, lines: [JSON.stringify(value, null, 2)] };
    }
    const { origins: all, ignored, leftOut } = await currentSettings(shell, () => model);
    const origins = all.map(withoutKey);
    for (const sentence of ignored) shell.complainOnce(sentence);
    const value = origins.map(({ key, value, origin, file }) => {
      const out = leftOut.find((setting) => setting.key === key);
      return {
        key,
        value,
        origin,
        file,
        ...(out ? { leftOut: { file: out.file, effect: out.effect } } : {}),
      };
    });
    return { value, lines: viewSettings(origins, leftOut, shell) };
  },
});

/** Replaces the value of a key. */
const withoutKey = (setting: SettingOrigin): SettingOrigin =>
  setting.key.endsWith("ApiKey") && setting.value != null ? { ...setting, value: "(set)" } : setting;

/** Draws the current settings by policy: defaults are dim, ignored settings come last. */
function* viewSettings(
  settings: readonly SettingOrigin[],
  leftOut: readonly LeftOutSetting[],
  { colours, columns }: Pick<Shell, "colours" | "columns">,
): Generator<string> {
  const rows = settings.map((setting) => ({ ...setting, text: textOf(setting.value) }));
  const keyWidth = widest(rows.map(({ key }) => key));
  const valueWidth = widest(rows.map(({ text }) => text));
  const current = String(settings.find(({ key }) => key === "policy")?.value ?? "");
  for (const [group, words] of Object.entries(GROUPS)) {
    const isUsed = group === current ? " (the current policy)" : "";
    if (group !== EVERY) yield "";
    yield colours.bold(group === EVERY ? "every policy" : `${group}${isUsed}`);
    for (const { key, text, origin, file, variable } of rows) {
      const word = words[key];
      if (word === undefined) continue;
      const place = file ?? variable;
      const from =
        origin === "default" ? "" : ` (${place === null ? origin : `${origin}: ${plainLine(place)}`})`;
      const row = `  ${key.padEnd(keyWidth)}  ${text.padEnd(valueWidth)}  `;
      const indent = columnsOf(row);
      const meaning = wrapToColumns(`${word}${from}`, columns - indent).replaceAll(
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

const EVERY = "every";

/** Short description of each setting, grouped by the policy that reads it. */
const GROUPS: Readonly<Record<string, Partial<Record<string, string>>>> = {
  [EVERY]: {
    policy: "when to compact and what to keep; `espalier policies` compares the policies",
    autoCompact: "compact automatically; false: only on request",
    contextWindow: "context window in tokens, if the model's own is unknown",
    requestBytes: "largest request, in bytes",
    reserveTokens: "tokens kept free for the answer",
    model: "model to ask, as provider/id",
    summarizer: "writer of summaries",
    fallback: "write summaries without a model when the model fails",
    rules: "keep the user's rules in every compaction",
    extensions: "files of extensions to load",
    maxCost: "budget of a session with its sub-agents, in US dollars",
    prices: "your prices of models, in US dollars per million tokens",
    anthropicBaseUrl: "address of Claude",
    anthropicApiKey: "key of Claude",
    openaiBaseUrl: "address of a server with OpenAI's API",
    openaiApiKey: "key of that server",
  },
  "token-budget": { keepRecentTokens: "newest tokens that stay unchanged" },
  "sliding-window": {
    contextSize: "maximum number of messages in a request",
    tailKeepSize: "newest messages that stay unchanged",
    compressionWindowSize: "older messages that are summarized together",
    compressionCooldownSec: "seconds after which fewer messages are summarized too",
    compressionHardLimit: "maximum number of older messages",
  },
  "message-count": {
    maxMessages: "number of messages at which a summary is made",
    keepLast: "newest messages that stay unchanged",
  },
  offload: {
    offloadThreshold:
      "context tokens at which long results move to files; -: the model's window minus the reserve",
    offloadMinTokens: "minimum tokens of a result that moves",
    triggerTokens: "a summary is made when moving results frees fewer tokens",
    preserveCount: "newest messages that a summary leaves unchanged",
    targetTokens: "target length of the summary in tokens",
    retryCount: "maximum attempts at a summary",
  },
  pressure: {
    maxContextTokens: "tokens that count as full",
    compactionThreshold: "percent of maxContextTokens at which messages are left out",
    criticalThreshold: "percent of maxContextTokens at which more messages are left out",
  },
};

/** Reasons to ignore a setting of an untrusted project. */
const EFFECTS: Readonly<Record<LeftOutSetting["effect"], string>> = {
  runs: "runs code",
  sends: "chooses the receiver of messages",
  spends: "decides how often and how much is sent",
};

function textOf(value: unknown): string {
  if (value === null || (Array.isArray(value) && value.length === 0)) return "-";
  if (typeof value === "object" && value !== undefined && !Array.isArray(value))
    return plainLine(JSON.stringify(value));
  return plainLine(Array.isArray(value) ? value.join(", ") : String(value));
}

const widest = (texts: readonly string[]): number => Math.max(5, ...texts.map(({ length }) => length));

interface TrustOptions {
  list?: boolean;
  revoke?: boolean;
}

const trustCommand = command({
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
  async run({ options: { list = false, revoke = false } }: Call<TrustOptions>, folder: string | undefined) {
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
});

const storeCommand = command({
  usage: "store <action>",
  description: "set up the store of --store: migrate creates its tables, or updates them",
  examples: ["ESPALIER_STORE=postgres://localhost/agents espalier store migrate"],
  async run({ shell }: Call<object>, action: string) {
    if (action !== "migrate") throw new CommandError("usage", "expected an action for the store: migrate.");
    const { store } = shell.globals;
    if (store === undefined) throw new CommandError("usage", "Name the store by --store or ESPALIER_STORE.");
    const report = await migrateStore(store);
    for (const warning of report.warnings) shell.complain(warning);
    const { applied, place, version } = report;
    const line =
      applied.length > 0
        ? `${place} was updated to version ${version}: ${applied.join(", ")}.`
        : `${place} is up to date.`;
    return { value: report, lines: [line] };
  },
});

/** Commands that set up the store, the settings, and the trust in those of a project. */
export const settingsCommands = [storeCommand, config, trustCommand] as const;
