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
    .description("let the extensions in .espalier/extensions of a project run; without a folder, of this one")
    .option("--revoke", "no longer")
    .option("--list", "list the folders that are trusted")
    .addHelpText("after", "\nExamples:\n  espalier trust\n  espalier trust ../other --revoke")
    .action(async (folder: string | undefined, { list = false, revoke = false }: TrustOptions) => {
      const trust = openTrust();
      if (list) {
        const folders = trust.list();
        await print(shell, { folders }, () => (folders.length > 0 ? folders : ["No folder is trusted."]));
        return;
      }
      const project = folder ?? process.cwd();
      if (revoke) trust.revoke(project);
      else trust.trust(project);
      const trusted = trust.isTrusted(project);
      await print(shell, { folder: trusted ? realpathSync(project) : project, trusted }, () => [
        trusted
          ? `Extensions of ${project} run from now on.`
          : `Extensions of ${project} do not run any more.`,
      ]);
    });
}
