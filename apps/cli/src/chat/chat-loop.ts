import { createInterface } from "node:readline";
import { setTimeout } from "node:timers/promises";
import type { Agent } from "@espalier/agent";
import type { Session } from "@espalier/engine";
import type { Shell } from "../shell.ts";
import { type Chat, runChatCommand } from "./chat-commands.ts";
import { viewAutomatic, viewEvent, viewFooter } from "./chat-view.ts";

const PROMPT = "› ";

/** What a person is told of a conversation that did not end well. */
const STANDS: Readonly<Record<string, string>> = {
  unsent: "The last message was never sent to the model. Say more, or take it back with /undo.",
  "outcome-unknown":
    "The last request was sent, and nothing is known of its answer; it may have been billed.",
};

/** Talks with a person until they leave: lines in, words of the model out. */
export function runChat(session: Session, agent: Agent, shell: Shell): Promise<void> {
  const lines = createInterface({ input: process.stdin, output: process.stdout, prompt: PROMPT });
  const { colours } = shell;
  let manual = false;
  let interrupts = 0;
  /** Lines that are being carried out. */
  let acting = 0;
  let isClosed = false;
  const untilIdle = async () => {
    while (acting > 0) await setTimeout(20);
  };
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
      if (event.type === "compact_done" && !manual) say(viewAutomatic(event));
      const text = viewEvent(event, colours);
      if (text !== undefined) process.stdout.write(text);
      if (event.type === "agent_end") say(colours.dim(viewFooter(session, agent.model)));
    });

    const take = async (line: string) => {
      interrupts = 0;
      acting++;
      const text = line.trim();
      if (text.startsWith("/")) {
        manual = true;
        await runChatCommand(chat, text);
        manual = false;
      } else if (text !== "") await agent.run(text).catch((error: Error) => say(colours.red(error.message)));
      acting--;
      if (acting === 0 && !isClosed) lines.prompt();
    };

    lines.on("line", (line) => void take(line));
    lines.on("SIGINT", () => {
      if (acting > 0) agent.abort();
      else if (++interrupts > 1) lines.close();
      else {
        say("\nPress Ctrl-C again to leave.");
        lines.prompt();
      }
    });
    lines.on("close", () => {
      isClosed = true;
      agent.abort();
      void untilIdle().then(resolve);
    });

    say(`${session.name ?? "A new session"} · ${session.file}\n/help lists the commands.`);
    for (const sentence of viewState(agent)) say(colours.yellow(sentence));
    lines.prompt();
  });
}

/** What a person should know of how the conversation ended the last time. */
function viewState({ state: { state, openCalls }, waiting }: Agent): string[] {
  const calls = openCalls.length === 1 ? "A tool call was" : `${openCalls.length} tool calls were`;
  return [
    ...(state in STANDS ? [STANDS[state]!] : []),
    ...(openCalls.length > 0 ? [`${calls} interrupted; they are not run again by themselves.`] : []),
    ...(waiting > 0 ? [`Messages that wait to be sent with your next one: ${waiting}.`] : []),
  ];
}
