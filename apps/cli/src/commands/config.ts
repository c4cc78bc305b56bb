import { settingsJsonSchema } from "@espalier/engine";
import type { Command } from "commander";
import { print } from "../print.ts";
import { settingsInForce } from "../settings-in-force.ts";
import type { Shell } from "../shell.ts";
import { viewSettings } from "../views/view-settings.ts";

export function addConfig(program: Command, shell: Shell): void {
  program
    .command("config")
    .description("print the settings in force, and where each comes from")
    .option("--model <id>", "with what the settings say of this model")
    .option("--schema", "print the JSON Schema of a settings file instead, for editors")
    .addHelpText(
      "after",
      `
Settings are read from ~/.espalier/settings.json (or .toml), then .espalier/settings.json (or .toml) of this folder,
then ESPALIER_COMPACT_* of the environment (ESPALIER_COMPACT_KEEP_RECENT_TOKENS=8000), then the options of a command;
what comes later counts. Those of a project count once it is trusted: \`espalier trust\`. Sizes are tokens or shares of the model's window; "models" has what differs for one of them.

A settings file:
  { "policy": "sliding-window", "keepRecentTokens": 0.1, "models": { "claude-opus-4": { "reserveTokens": 32000 } } }

Examples:
  espalier config
  espalier config --model anthropic/claude-opus-4`,
    )
    .action(async ({ model, schema }: { model?: string; schema?: boolean }) => {
      if (schema) {
        const value = await settingsJsonSchema();
        return print(shell, value, () => [JSON.stringify(value, null, 2)]);
      }
      const { origins, ignored, leftOut } = await settingsInForce(shell, () => model);
      for (const sentence of ignored) shell.complainOnce(sentence);
      const rows = origins.map(({ key, value, origin, file }) => {
        const out = leftOut.find((setting) => setting.key === key);
        return {
          key,
          value,
          origin,
          file,
          ...(out ? { leftOut: { file: out.file, effect: out.effect } } : {}),
        };
      });
      await print(shell, rows, () => viewSettings(origins, leftOut, shell));
    });
}
