import type { Agent } from "@espalier/agent";
import { POLICY_NAMES, type PolicyName, type Session } from "@espalier/engine";
import { promptText } from "@espalier/session-tree";
import { anthropicModels } from "@espalier/summarizer";
import { viewContext } from "../commands/context.ts";
import { viewTree } from "../commands/tree.ts";
import { existingEntry } from "../entry-reference.ts";
import { CommandError } from "../failure.ts";
import { formatCount } from "../numbers.ts";
import type { Shell } from "../shell.ts";
import { plainLine } from "../text.ts";
import { EXTRACTIVE, isExtractive, viewCompacted, viewCompactionError } from "./chat-view.ts";
import { type ChatChoices, settingsFor } from "./conversation.ts";

/** What a command of the chat works on. */
export interface Chat {
  readonly session: Session;
  readonly agent: Agent;
  readonly choices: ChatChoices;
  readonly shell: Shell;
  /** Ends the command that runs. */
  readonly signal: AbortSignal;
  /** Says something that stays on the screen. */
  say(text: string): void;
  /** Shows that something takes its time. */
  busy(what: string): void;
  /** Puts a text where the user types, to be changed and sent. */
  edit(text: string): void;
  /** Compacts whatever the thresholds say; `why` tells why it failed. */
  compact(focus: string): Promise<{ result: Awaited<ReturnType<Agent["forceCompact"]>>; why: string }>;
  /** Goes on in another session, or in this one with other choices. The one before is let go of first. */
  move(ref: string, choices: ChatChoices, why?: "fork" | "reload"): Promise<void>;
  quit(): void;
}

interface ChatCommand {
  name: string;
  description: string;
  /** True for those that may run while an answer is on its way. */
  anytime?: boolean;
  run(chat: Chat, argument: string): Promise<void> | void;
}

/** Lines of a long view that are shown: the newest. */
const SHOWN = 200;
const isPolicy = (name: string): name is PolicyName => (POLICY_NAMES as readonly string[]).includes(name);

/** All commands, in the order of the help. A new one is an element here. */
export const CHAT_COMMANDS: readonly ChatCommand[] = [
  {
    name: "tree",
    description: "Show the session as a tree",
    anytime: true,
    run: (chat) => chat.say(newest([...viewTree(chat.session, chat.shell, {})])),
  },
  {
    name: "context",
    description: "Show what the model reads",
    anytime: true,
    run: (chat) => {
      const { session, shell } = chat;
      chat.say(newest([...viewContext(session, session.leafId, session.context, shell)]));
    },
  },
  {
    name: "fork",
    description: "Go on in a session of its own: /fork [id] [--summarize]",
    run: fork,
  },
  { name: "compact", description: "Compress conversation history", anytime: true, run: compact },
  {
    name: "label",
    description: "Label this place; without a text, take its label away",
    async run(chat, text) {
      const { leafId } = chat.session;
      if (leafId === null) return chat.say("There is nothing to label yet.");
      if (!text && chat.session.getLabel(leafId) === undefined)
        return chat.say("There is no label here; /label <text> gives it one.");
      await chat.session.label(leafId, text);
      chat.say(
        text
          ? `Labelled ${plainLine(leafId)}: ${plainLine(text)}`
          : `The label of ${plainLine(leafId)} is gone.`,
      );
    },
  },
  {
    name: "hide",
    description: "Keep an entry from the model: /hide <id>",
    async run(chat, reference) {
      if (!reference) return chat.say("Say which one: /hide <id>; /context lists them.");
      const id = existingEntry(chat.session, reference);
      await chat.session.hide(id);
      const { tokens } = chat.session.context;
      chat.say(
        `${plainLine(id)} is hidden, and the model reads ${formatCount(tokens)} tokens; /undo brings it back.`,
      );
    },
  },
  {
    name: "name",
    description: "Name the session; without a text, show its name",
    anytime: true,
    async run(chat, text) {
      const { session } = chat;
      if (text) await session.rename(text);
      chat.say(
        session.name ? `The session is called ${plainLine(session.name)}` : "The session has no name yet.",
      );
    },
  },
  { name: "model", description: "Show the model, or /model <id> to take another one", run: chooseModel },
  {
    name: "policy",
    description: "Show when it is compacted, or /policy <name> to change it",
    run: choosePolicy,
  },
  {
    name: "undo",
    description: "Take back the newest prompt, to change it, /compact or /hide",
    async run(chat) {
      const { editorText } = await chat.session.undo();
      chat.say("Taken back; it stays in the file as a branch of its own.");
      if (editorText) chat.edit(editorText);
    },
  },
  {
    name: "continue",
    description: "Send again what has no answer yet",
    async run(chat) {
      if ((await chat.agent.continue()) === null && !chat.signal.aborted)
        chat.say("There is nothing to go on with: the last word is an answer.");
    },
  },
  {
    name: "help",
    description: "Show this help",
    anytime: true,
    run: (chat) => chat.say(helpText(chat.session)),
  },
  { name: "quit", description: "Leave the chat", anytime: true, run: (chat) => chat.quit() },
];

async function fork(chat: Chat, argument: string): Promise<void> {
  const { session, signal } = chat;
  const words = argument.split(/\s+/).filter((word) => word !== "");
  const summarize = words.includes("--summarize");
  const [reference, ...more] = words.filter((word) => word !== "--summarize");
  if (more.length > 0) throw new CommandError("usage", "One entry at a time: /fork <id> [--summarize].");
  const from = reference === undefined ? session.leafId : existingEntry(session, reference);
  if (from === null) return chat.say("There is nothing to fork yet.");
  if (summarize) chat.busy("summarises what the fork leaves out");
  // Whoever names a prompt wants to put it otherwise; whoever names nothing goes on from here.
  const isPrompt =
    reference !== undefined && promptText(session.tree.entryAt(session.tree.row(from))) !== null;
  const position = isPrompt ? "before" : "at";
  const made = await session
    .fork(from, { position, summarize, signal, ...chat.agent.summaries })
    .catch((error: Error & { code?: unknown }) => {
      if (error.code !== "aborted") throw error;
      chat.say("Fork aborted, nothing was made");
    });
  if (!made) return;
  chat.say(`Forked to ${plainLine(made.id)}\n${made.file}`);
  if (summarize && made.summaryEntryId === null) chat.say("It leaves nothing out that could be summarised.");
  await chat.move(made.file, chat.choices, "fork");
  if (made.summaryEntryId !== null && isExtractive(chat.session.getEntry(made.summaryEntryId)))
    chat.say(EXTRACTIVE);
  if (made.selectedText) chat.edit(made.selectedText);
}

async function compact(chat: Chat, focus: string): Promise<void> {
  chat.busy("compacts");
  try {
    const { result, why } = await chat.compact(focus);
    chat.say(viewCompacted(result, why));
  } catch (error) {
    chat.say(viewCompactionError(error));
  }
}

async function chooseModel(chat: Chat, modelId: string): Promise<void> {
  const { agent, session, choices, shell } = chat;
  if (!modelId) {
    const others = Object.keys(anthropicModels).join(", ");
    return chat.say(`The model is ${agent.model.modelId}\nKnown ones: ${others}`);
  }
  const chosen = { ...choices, model: modelId };
  await settingsFor(shell, chosen, () => `anthropic/${modelId}`);
  await chat.move(session.file, chosen);
  chat.say(`The model is ${chat.agent.model.modelId}`);
}

async function choosePolicy(chat: Chat, name: string): Promise<void> {
  const { agent, session, choices, shell } = chat;
  const names = POLICY_NAMES.join(", ");
  if (!name) return chat.say(`The policy is ${session.policy.name}\nThere are: ${names}`);
  if (!isPolicy(name)) throw new CommandError("usage", `There is no policy ${name}; take one of ${names}.`);
  const chosen = { ...choices, policy: name };
  await settingsFor(shell, chosen, () => `anthropic/${agent.model.modelId}`);
  await chat.move(session.file, chosen);
  chat.say(`The policy is ${chat.session.policy.name}, for as long as this chat goes on`);
}

/** The end of a long view. */
function newest(lines: readonly string[]): string {
  const left = lines.length - SHOWN;
  return (left > 0 ? [`… ${left} lines above`, ...lines.slice(-SHOWN)] : lines).join("\n");
}

/** Columns of the names in the help. */
const NAME_WIDTH = 17;

/** `/compact         Compress conversation history`, a line each. */
function helpText({ commands }: Session): string {
  const own = commands.filter(({ name }) => !CHAT_COMMANDS.some((one) => one.name === name));
  const lines = [...CHAT_COMMANDS, ...own].map(
    ({ name, description }) => `  ${`/${name}`.padEnd(NAME_WIDTH)}${plainLine(description)}`,
  );
  return [...lines, "Ctrl-C ends what goes on; what you type meanwhile waits for its turn."].join("\n");
}

/** Runs a line that begins with `/`. */
export async function runChatCommand(chat: Chat, line: string): Promise<void> {
  const [, name = "", argument = ""] = /^\/(\S*)\s*(.*)$/s.exec(line) ?? [];
  const command = CHAT_COMMANDS.find((one) => one.name === name);
  if (!command && chat.session.commands.some((one) => one.name === name))
    return chat.session.runCommand(name, argument.trim(), chat.signal);
  if (!command) return chat.say(`There is no command /${plainLine(name)}; /help lists them.`);
  if (chat.agent.isRunning && !command.anytime)
    return chat.say("An answer is on its way; wait for it, or end it with Ctrl-C.");
  await command.run(chat, argument.trim());
}
