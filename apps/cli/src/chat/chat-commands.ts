import { type Agent, anthropicModel } from "@espalier/agent";
import type { Session } from "@espalier/engine";
import { existingEntry } from "../entry-reference.ts";
import type { Shell } from "../shell.ts";
import { viewContext } from "../views/view-context.ts";
import { viewTree } from "../views/view-tree.ts";
import { COMPACTION_FAILED, viewCompacted } from "./chat-view.ts";

/** What a command of the chat works on. */
export interface Chat {
  readonly session: Session;
  readonly agent: Agent;
  readonly shell: Shell;
  say(text: string): void;
  quit(): void;
  /** Puts a text where the user types, to be changed and sent. */
  edit(text: string): void;
}

/** A command of the chat. */
interface ChatCommand {
  name: string;
  /** What may follow the name. */
  usage: string;
  description: string;
  run(chat: Chat, argument: string): Promise<void> | void;
}

/** All commands, in the order of the help. A new one is an element here. */
const CHAT_COMMANDS: readonly ChatCommand[] = [
  {
    name: "tree",
    usage: "",
    description: "Show the session as a tree",
    run: ({ session, shell, say }) => say([...viewTree(session, shell, {})].join("\n")),
  },
  {
    name: "context",
    usage: "",
    description: "Show what the model reads",
    run: ({ session, shell, say }) =>
      say([...viewContext(session, session.leafId, session.context, shell)].join("\n")),
  },
  {
    name: "fork",
    usage: "[id]",
    description: "Go on in a session of its own, from here or from an entry",
    async run({ session, say }, argument) {
      const from = argument ? existingEntry(session, argument) : session.leafId;
      if (from === null) return say("There is nothing to fork yet.");
      const { file, id } = await session.fork(from);
      say(`Forked to ${id}\n${file}`);
    },
  },
  {
    name: "compact",
    usage: "[focus]",
    description: "Compress conversation history",
    async run(chat, focus) {
      try {
        chat.say(viewCompacted(await chat.agent.forceCompact(focus || undefined)));
      } catch (error) {
        chat.say(`${COMPACTION_FAILED}\n   ${(error as Error).message}`);
      }
    },
  },
  {
    name: "label",
    usage: "<text>",
    description: "Label this place",
    async run({ session, say }, text) {
      if (session.leafId === null) return say("There is nothing to label yet.");
      await session.label(session.leafId, text);
      say(text ? `Labelled ${session.leafId}: ${text}` : `The label of ${session.leafId} is gone`);
    },
  },
  {
    name: "name",
    usage: "<text>",
    description: "Name the session",
    async run({ session, say }, text) {
      await session.rename(text);
      say(`The session is called ${text}`);
    },
  },
  {
    name: "model",
    usage: "[id]",
    description: "Show the model, or take another one",
    async run({ agent, say }, modelId) {
      if (modelId) await agent.setModel(anthropicModel({ model: modelId }));
      say(`The model is ${agent.model.modelId}`);
    },
  },
  {
    name: "policy",
    usage: "",
    description: "Show when the session is compacted",
    run({ session, say }) {
      const { policy = "token-budget" } = session.options;
      say(`The policy is ${typeof policy === "string" ? policy : policy.name}`);
    },
  },
  {
    name: "undo",
    usage: "",
    description: "Take back the newest prompt",
    async run({ session, edit, say }) {
      const { editorText } = await session.undo();
      say("Taken back");
      if (editorText) edit(editorText);
    },
  },
  {
    name: "help",
    usage: "",
    description: "Show this help",
    run: ({ say }) => say(helpText()),
  },
  { name: "quit", usage: "", description: "Leave the chat", run: ({ quit }) => quit() },
];

/** Columns of the names in the help. */
const NAME_WIDTH = 17;

/** `/compact         Compress conversation history`, a line each. */
function helpText(): string {
  return CHAT_COMMANDS.map(
    ({ name, description }) => `  ${`/${name}`.padEnd(NAME_WIDTH)}${description}`,
  ).join("\n");
}

/** Runs a line that begins with `/`. What goes wrong is said, and the chat goes on. */
export async function runChatCommand(chat: Chat, line: string): Promise<void> {
  const [, name = "", argument = ""] = /^\/(\S*)\s*(.*)$/s.exec(line) ?? [];
  const command = CHAT_COMMANDS.find((one) => one.name === name);
  if (!command) return chat.say(`There is no command /${name}; /help lists them.`);
  if (chat.agent.isRunning && name !== "quit" && name !== "help")
    return chat.say("An answer is on its way; wait for it, or end it with Ctrl-C.");
  try {
    await command.run(chat, argument.trim());
  } catch (error) {
    chat.say((error as Error).message);
  }
}
