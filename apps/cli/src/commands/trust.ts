import { realpathSync } from "node:fs";
import { openTrust } from "@espalier/engine";
import type { Command } from "commander";
import { print } from "../print.ts";
import type { Shell } from "../shell.ts";

interface TrustOptions {
  list?: boolean;
  revoke?: boolean;
}

export function addTrust(program: Command, shell: Shell): void {
  program
    .command("trust [folder]")
    .description(
      "let the settings and extensions of a project count as they are now; without a folder, of this one",
    )
    .option("--revoke", "no longer")
    .option("--list", "list the folders that are trusted")
    .addHelpText(
      "after",
      `
What is trusted are the settings in .espalier, all files in .espalier/extensions and the modules that the settings name,
as they are now. When one of them changes, nothing of the project counts until you are asked again, or trust it again.
What these modules import from elsewhere is not covered.

Examples:
  espalier trust
  espalier trust ../other --revoke`,
    )
    .action(async (folder: string | undefined, { list = false, revoke = false }: TrustOptions) => {
      const trust = openTrust();
      if (list) {
        const folders = trust.list();
        await print(shell, { folders }, () => (folders.length > 0 ? folders : ["No folder is trusted."]));
        return;
      }
      const project = folder ?? process.cwd();
      if (revoke) trust.revoke(project);
      else await trust.trust(project);
      const trusted = trust.isTrusted(project);
      await print(shell, { folder: trusted ? realpathSync(project) : project, trusted }, () => [
        trusted
          ? `Settings and extensions of ${project} count from now on, as they are now.`
          : `Settings and extensions of ${project} do not count any more.`,
      ]);
    });
}
