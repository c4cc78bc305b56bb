import { Argument, type Command } from "commander";
import { completionScripts } from "../completion.ts";
import { print, type Shell } from "../shell.ts";

export function addCompletion(program: Command, shell: Shell): void {
  program
    .command("completion")
    .description("print what a shell needs to complete commands, options, sessions and entries")
    .addArgument(new Argument("<shell>", "the shell").choices(Object.keys(completionScripts)))
    .addHelpText(
      "after",
      `
Examples:
  eval "$(espalier completion bash)"       # in ~/.bashrc
  eval "$(espalier completion zsh)"        # in ~/.zshrc, after compinit
  espalier completion fish | source        # in ~/.config/fish/config.fish`,
    )
    .action(async (name: keyof typeof completionScripts) => {
      const script = completionScripts[name];
      await print(shell, { shell: name, script }, () => script.trimEnd().split("\n"));
    });

  program
    .command("complete [words...]", { hidden: true })
    .description("what could stand at the end of a line that is being typed")
    .action(async (words: string[]) => {
      const { completionOf } = await import("../completion.ts");
      const { candidates, files } = await completionOf(program, words, shell);
      for (const { value, description } of candidates)
        await shell.output.writeLine(`${value}\t${description}`);
      if (files) await shell.output.writeLine(":files");
    });
}
