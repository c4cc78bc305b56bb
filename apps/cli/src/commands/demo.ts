import { fileURLToPath } from "node:url";
import type { Command } from "commander";
import { demoSource } from "../demo/demo-source.ts";
import { playDemo } from "../demo/play-demo.ts";
import type { Shell } from "../shell.ts";

/** The session that travels with the command; it lies beside the bundle. */
const BUNDLED = fileURLToPath(new URL("assets/demo-session.jsonl", import.meta.url));

export function addDemo(program: Command, shell: Shell): void {
  program
    .command("demo [file]")
    .description("see it all on a session: yours, or one that is made for it; works on a copy")
    .addHelpText("after", "\nExamples:\n  espalier demo\n  espalier demo session.jsonl")
    .action(async (file: string | undefined) => {
      if (file === undefined) return playDemo(shell, BUNDLED, "the session that comes with espalier");
      if (shell.store) return playDemo(shell, file);
      const { ref, name } = await demoSource(file);
      return playDemo(shell, ref, name);
    });
}
