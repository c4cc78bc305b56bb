import { migrateStore } from "@espalier/engine";
import type { Command } from "commander";
import { CommandError } from "../failure.ts";
import { print } from "../print.ts";
import type { Shell } from "../shell.ts";

export function addStore(program: Command, shell: Shell): void {
  program
    .command("store <action>")
    .description("set up the store of --store: migrate makes its tables, or brings them up to date")
    .addHelpText("after", "\nExample:\n  ESPALIER_STORE=postgres://localhost/agents espalier store migrate")
    .action(async (action: string) => {
      if (action !== "migrate") throw new CommandError("usage", "What can be done with a store is: migrate.");
      const { store } = shell.globals;
      if (store === undefined)
        throw new CommandError("usage", "Name the store by --store or ESPALIER_STORE.");
      const report = await migrateStore(store);
      for (const warning of report.warnings) shell.complain(warning);
      await print(shell, report, () => [
        report.applied.length > 0
          ? `${report.place} is at version ${report.version} now: ${report.applied.join(", ")}.`
          : `${report.place} is up to date.`,
      ]);
    });
}
