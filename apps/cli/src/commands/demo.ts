import { fileURLToPath } from "node:url";
import type { Command } from "commander";
import { withDemoSource } from "../demo/demo-source.ts";
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
      if (file === undefined)
        return playDemo(shell, { ref: BUNDLED, name: "the session that comes with espalier" });
      if (shell.store) return playDemo(shell, { ref: file });
      return withDemoSource(file, (source) => playDemo(shell, source));
    });
}
