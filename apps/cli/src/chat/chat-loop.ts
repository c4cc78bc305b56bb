import { createInterface } from "node:readline";
import type { Agent } from "@espalier/agent";
import type { Session } from "@espalier/engine";
import type { Shell } from "../shell.ts";
import { type Chat, runChatCommand } from "./chat-commands.ts";
import { viewAutomatic, viewEvent, viewFooter } from "./chat-view.ts";

const PROMPT = "› ";

/** What a person is told of a conversation that did not end well. */
const STANDS: Readonly<Record<string, string>> = {
  "never-sent": "Your last message was never sent. Say more, or take it back with /undo.",
  "outcome-unknown":
    "The last request was sent, and nothing is known of its answer; it may have been billed.",
  "interrupted-calls":
    "Tool calls of the last answer were interrupted. They are not run again by themselves.",
};

/** Talks with a person until they leave: lines in, words of the model out. */
export function runChat(session: Session, agent: Agent, shell: Shell): Promise<void> {
  const lines = createInterface({ input: process.stdin, output: process.stdout, prompt: PROMPT });
  const { colours } = shell;
  let manual = false;
  let interrupts = 0;
  const say = (text: string) => void process.stdout.write(`${text}\n`);

  return new Promise((resolve) => {
    const chat: Chat = {
      session,
      agent,
      shell,
      say,
      quit: () => lines.close(),
      edit: (text) => void lines.write(text),
    };

    agent.on((event) => {
      if (event.type === "compact_done" && !manual) say(viewAutomatic(session, event.result));
      const text = viewEvent(event, colours);
      if (text !== undefined) process.stdout.write(text);
      if (event.type === "agent_end") say(colours.dim(viewFooter(session, agent.model)));
    });

    const take = async (line: string) => {
      interrupts = 0;
      const text = line.trim();
      if (text.startsWith("/")) {
        manual = true;
        await runChatCommand(chat, text);
        manual = false;
      } else if (text !== "") await agent.run(text).catch((error: Error) => say(colours.red(error.message)));
      if (!agent.isRunning) lines.prompt();
    };

    lines.on("line", (line) => void take(line));
    lines.on("SIGINT", () => {
      if (agent.isRunning) agent.abort();
      else if (++interrupts > 1) lines.close();
      else {
        say("\nPress Ctrl-C again to leave.");
        lines.prompt();
      }
    });
    lines.on("close", () => {
      agent.abort();
      resolve();
    });

    say(`${session.name ?? "A new session"} · ${session.file}\n/help lists the commands.`);
    const stands = STANDS[agent.state.state];
    if (stands) say(colours.yellow(stands));
    lines.prompt();
  });
}
