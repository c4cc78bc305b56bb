import type { Agent } from "@espalier/agent";
import { listSessions } from "@espalier/engine";
import { messageText, redactFolder } from "@espalier/session-tree";
import type { Command } from "commander";
import { runChat } from "../chat/chat-loop.ts";
import { toldBy } from "../chat/chat-view.ts";
import { type ChatChoices, openConversation } from "../chat/conversation.ts";
import { CommandError } from "../failure.ts";
import { jsonLine } from "../json-pieces.ts";
import { renderMarkdown } from "../markdown/render-markdown.ts";
import { storeOf, tellSkipped } from "../opening.ts";
import type { Shell } from "../shell.ts";

interface ChatOptions {
  print?: string;
  continue?: boolean;
  model?: string;
}

export function addChat(program: Command, shell: Shell): void {
  program
    .command("chat [session]")
    .description("talk with Claude in a session: a new one, or one that goes on")
    .option("-c, --continue", "go on with the newest session of this folder")
    .option("-p, --print <prompt>", "send one prompt, print the answer, and leave")
    .option("--model <id>", "who answers; by default who answered last")
    .addHelpText(
      "after",
      `
Needs ANTHROPIC_API_KEY. With --print and --json the events of the run, one a line; when nobody reads them any more, the run is aborted.

Examples:
  espalier chat
  espalier chat --continue
  espalier chat --print "What does this folder hold?"
  espalier chat session.jsonl --model claude-haiku-4-5`,
    )
    .action(async (ref: string | undefined, { print, continue: goesOn, model }: ChatOptions) => {
      if (!process.env["ANTHROPIC_API_KEY"]) {
        throw new CommandError(
          "no-key",
          "Chatting needs a key: set ANTHROPIC_API_KEY to one of Claude's API.",
        );
      }
      if (print === undefined && (!shell.interactive || !process.stdout.isTTY))
        throw new CommandError("usage", "There is no terminal to talk in; give --print PROMPT.");
      const place = ref ?? (goesOn ? await newestHere(shell) : undefined);
      const choices = model === undefined ? {} : { model };
      await (print === undefined ? runChat(shell, place, choices) : answerOne(shell, place, choices, print));
    });
}

/** One prompt and its answer: as markdown is, or, for a person, as it looks; with --json everything that happens. */
async function answerOne(
  shell: Shell,
  ref: string | undefined,
  choices: ChatChoices,
  prompt: string,
): Promise<void> {
  const { session, agent } = await openConversation(shell, ref, choices);
  const interrupt = () => agent.abort();
  process.on("SIGINT", interrupt);
  try {
    const answer = await (shell.json ? toldRun(shell, agent, prompt) : agent.run(prompt));
    if (!answer || answer.stopReason === "aborted")
      throw new CommandError("aborted", "The answer was aborted.");
    if (answer.stopReason === "error")
      throw new CommandError("model", toldBy(answer.errorMessage ?? "The model failed without a word."));
    if (shell.json) return;
    const text = messageText(answer);
    const lines = process.stdout.isTTY ? renderMarkdown(text, shell) : [text];
    await shell.output.writeLine(lines.join("\n"));
  } finally {
    process.off("SIGINT", interrupt);
    await session.close();
  }
}

/** A run of which every event is printed when it happens. Where nobody reads them any more, it ends. */
async function toldRun({ output }: Shell, agent: Agent, prompt: string) {
  let told = Promise.resolve();
  agent.on((event) => {
    const line = jsonLine(event);
    told = told.then(() => output.writeLine(line)).then(() => output.flush());
    told.catch(() => agent.abort());
  });
  try {
    return await agent.run(prompt);
  } finally {
    await told;
  }
}

async function newestHere(shell: Shell): Promise<string> {
  const here = redactFolder(process.cwd());
  for await (const { ref, cwd } of listSessions({ ...storeOf(shell), ...tellSkipped(shell) }))
    if (cwd === here || cwd === process.cwd()) return ref;
  throw new CommandError("not-found", "There is no session of this folder yet; `espalier chat` begins one.");
}
