import type { Agent } from "@espalier/agent";
import { POLICY_NAMES, type PolicyName, type Session } from "@espalier/engine";
import { messageText, promptText } from "@espalier/session-tree";
import { anthropicModels } from "@espalier/summarizer";
import { actName } from "../commands/changes.ts";
import { viewContext } from "../commands/context.ts";
import { viewTree } from "../commands/tree.ts";
import { existingEntry } from "../entry-reference.ts";
import { CommandError } from "../failure.ts";
import { formatCount } from "../numbers.ts";
import { lineDialogs, type Shell } from "../shell.ts";
import { plainLine } from "../text.ts";
import {
  ChatDrawing,
  EXTRACTIVE,
  isExtractive,
  viewCompacted,
  viewCompactionError,
  viewGreeting,
  viewState,
} from "./chat-drawing.ts";
import { ChatScreen } from "./chat-screen.ts";
import { type ChatChoices, type Conversation, openConversation, settingsFor } from "./conversation.ts";

/** Talks with a person until they leave, and closes the session they end in. */
export async function runChat(shell: Shell, ref: string | undefined, choices: ChatChoices): Promise<void> {
  let { complain, interactive } = shell;
  const questions = new Questions();
  let setStatus: (key: string, text: string | undefined) => void = () => {};
  const chatShell: Shell = {
    ...shell,
    get columns() {
      return process.stdout.columns;
    },
    get interactive() {
      return interactive;
    },
    complain: (sentence) => complain(sentence),
    dialogs: lineDialogs(
      (text) => complain(text),
      (question, signal) => questions.ask(question, signal, (said) => complain(said)),
    ),
    setStatus: (key, text) => setStatus(key, text),
  };
  const log = new ChatLog(chatShell);
  const loop = new Chat(chatShell, log, await openConversation(chatShell, ref, choices, log), questions);
  setStatus = (key, text) => loop.setStatus(key, text);
  // From here on the screen is drawn, and no other question can be asked on it.
  interactive = false;
  complain = (sentence) => loop.say(shell.colours.yellow(plainLine(sentence)));
  await loop.ended;
  shell.exitCode = chatShell.exitCode;
}

/** A question of an extension that waits for a line. */
class Questions {
  #answer: ((line: string | undefined) => void) | undefined;

  ask(
    question: string,
    signal: AbortSignal | undefined,
    say: (text: string) => void,
  ): Promise<string | undefined> {
    say(question);
    return new Promise((resolve) => {
      const close = () => this.take(undefined);
      this.#answer = (line) => {
        signal?.removeEventListener("abort", close);
        resolve(line);
      };
      signal?.addEventListener("abort", close, { once: true });
    });
  }

  /** Gives a line to the question, or closes it; false where none waits. */
  take(line: string | undefined): boolean {
    const answer = this.#answer;
    this.#answer = undefined;
    answer?.(line);
    return answer !== undefined;
  }
}

/** A running chat: reads lines, runs prompts and commands, shows answers. */
class Chat {
  readonly shell: Shell;
  readonly ended: Promise<void>;
  readonly #log: ChatLog;
  readonly #screen: ChatScreen;
  /** Runs and commands that have not ended. */
  readonly #acting = new Set<Promise<void>>();
  readonly #questions: Questions;
  #conversation: Conversation;
  #drawing: ChatDrawing;
  #stopListening: () => void = () => {};
  /** Aborts the running command; undefined while there is none. */
  #command: AbortController | undefined;
  #interrupts = 0;

  constructor(shell: Shell, log: ChatLog, first: Conversation, questions: Questions) {
    this.shell = shell;
    this.#questions = questions;
    this.#log = log;
    let end = () => {};
    this.ended = new Promise((resolve) => {
      end = resolve;
    });
    this.#screen = new ChatScreen({
      history: promptsOf(first.session),
      words: [...CHAT_COMMANDS, ...first.session.commands].map(({ name }) => `/${name}`),
      onLine: (line) => this.#take(line),
      onInterrupt: () => this.#interrupt(),
      onClose: () => void this.#leave().then(end),
    });
    this.#conversation = first;
    this.#drawing = this.#enter(first);
    this.say(viewGreeting(first.session, shell.colours));
    this.#drawing.recall();
    for (const sentence of viewState(first.agent)) this.say(shell.colours.yellow(sentence));
    this.#drawing.refresh();
  }

  get session(): Session {
    return this.#conversation.session;
  }

  get agent(): Agent {
    return this.#conversation.agent;
  }

  get choices(): ChatChoices {
    return this.#conversation.choices;
  }

  say(text: string): void {
    this.#drawing.say(text);
  }

  /** Puts a text into the input line, for the user to edit and send. */
  edit(text: string): void {
    this.#screen.edit(text);
  }

  /** Aborts the running command. */
  get signal(): AbortSignal {
    return this.#command?.signal ?? AbortSignal.abort();
  }

  busy(what: string): void {
    this.#drawing.busy(what);
  }

  /** Compacts regardless of the thresholds; `why` is the reason of a failure. */
  async compact(focus: string) {
    this.#log.takeReason();
    const drawing = this.#drawing;
    drawing.isCompactingByHand = true;
    try {
      const result = await this.agent.forceCompact(focus || undefined);
      return { result, why: this.#log.takeReason() };
    } finally {
      drawing.isCompactingByHand = false;
    }
  }

  quit(): void {
    this.#screen.close();
  }

  setStatus(key: string, text: string | undefined): void {
    this.#drawing.setStatus(key, text);
  }

  /** Continues in another session, or in this one with other choices. The current one is closed first. */
  async move(ref: string, choices: ChatChoices, why: "fork" | "reload" = "reload"): Promise<void> {
    this.#stopListening();
    this.#drawing.idle();
    await this.session.close(why);
    try {
      this.#drawing = this.#enter(await openConversation(this.shell, ref, choices, this.#log, why));
      this.#drawing.refresh();
    } catch (error) {
      // There is nothing left to talk in.
      this.shell.exitCode = 1;
      this.quit();
      throw error;
    }
  }

  #enter(conversation: Conversation): ChatDrawing {
    this.#conversation = conversation;
    const drawing = new ChatDrawing(this.#screen, this.shell.colours, conversation);
    this.#stopListening = conversation.agent.on((event) => drawing.draw(event));
    return drawing;
  }

  #take(line: string): void {
    this.#interrupts = 0;
    if (this.#questions.take(line) || line === "") return;
    const acting = line.startsWith("/") ? this.#runCommand(line) : this.#run(line);
    this.#acting.add(acting);
    void acting.finally(() => this.#acting.delete(acting));
  }

  /** Runs a prompt; an error is shown, and the chat continues. */
  async #run(text: string): Promise<void> {
    try {
      await this.agent.run(text);
    } catch (error) {
      this.say(this.shell.colours.red(plainLine((error as Error).message)));
    }
  }

  async #runCommand(line: string): Promise<void> {
    const { colours } = this.shell;
    this.say(colours.dim(`\n› ${plainLine(line)}`));
    if (this.#command) return this.say("Another command is running; Ctrl-C aborts it.");
    this.#command = new AbortController();
    try {
      await runChatCommand(this, line);
    } catch (error) {
      this.say(colours.red(plainLine((error as Error).message)));
    } finally {
      this.#command = undefined;
      if (!this.agent.isRunning) this.#drawing.idle();
    }
  }

  #interrupt(): void {
    if (this.#questions.take(undefined)) return;
    if (this.#acting.size > 0) {
      this.#command?.abort();
      this.agent.abort();
    } else if (this.#screen.clear()) this.#interrupts = 0;
    else if (++this.#interrupts > 1) this.quit();
    else this.say(this.shell.colours.dim("Press Ctrl-C again to leave."));
  }

  async #leave(): Promise<void> {
    this.#questions.take(undefined);
    this.#command?.abort();
    this.agent.abort("all");
    await Promise.all(this.#acting);
    this.#drawing.idle();
    this.#stopListening();
    const { id, leafId } = this.session;
    if (leafId !== null) this.say(this.shell.colours.dim(`To go on: espalier chat ${id}`));
    await this.session.close();
  }
}

/**
 * Log of a chat for errors that stop nothing. Failures are shown in their place, by the agent's events and
 * by the commands; the reason of the last one is kept for them.
 */
class ChatLog {
  readonly #shell: Pick<Shell, "complain">;
  #reason = "";

  constructor(shell: Pick<Shell, "complain">) {
    this.#shell = shell;
  }

  warn(message: string): void {
    this.#shell.complain(message);
  }

  error(message: string, details?: { error: unknown }): void {
    this.#reason = details?.error instanceof Error ? details.error.message : message;
  }

  /** Returns the reason of the last failure, and forgets it; empty without one. */
  takeReason(): string {
    const reason = this.#reason;
    this.#reason = "";
    return reason;
  }
}

/** Prompts that the arrow keys bring back. */
const REMEMBERED = 200;

/** The prompts of this path, newest first. */
function promptsOf({ context }: Session): string[] {
  const prompts = context.messages.flatMap((message) =>
    message.role === "user" ? [messageText(message)] : [],
  );
  return [...new Set(prompts.reverse())].slice(0, REMEMBERED);
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
const CHAT_COMMANDS: readonly ChatCommand[] = [
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
    description: "Fork into a new session: /fork [id] [--summarize]",
    run: fork,
  },
  { name: "compact", description: "Compress conversation history", anytime: true, run: compact },
  {
    name: "label",
    description: "Label this entry; without a text, remove its label",
    async run(chat, text) {
      const { leafId } = chat.session;
      if (leafId === null) return chat.say("There is no entry to label yet.");
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
    description: "Hide an entry from the model: /hide <id>",
    async run(chat, reference) {
      if (!reference) return chat.say("Name an entry: /hide <id>; /context lists them.");
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
  { name: "model", description: "Show the model, or /model <id> to change it", run: chooseModel },
  {
    name: "policy",
    description: "Show when it is compacted, or /policy <name> to change it",
    run: choosePolicy,
  },
  {
    name: "undo",
    description: "Undo the newest prompt, to edit it, /compact, /hide or a label",
    async run(chat) {
      const { editorText, act } = await chat.session.undo();
      chat.say(`Undone: ${actName(act)}; /redo restores it.`);
      if (editorText) chat.edit(editorText);
    },
  },
  {
    name: "redo",
    description: "Redo what /undo undid",
    async run(chat) {
      chat.say(`Done again: ${actName((await chat.session.redo()).act)}.`);
    },
  },
  {
    name: "continue",
    description: "Retry a prompt without an answer",
    async run(chat) {
      if ((await chat.agent.continue()) === null && !chat.signal.aborted)
        chat.say("There is nothing to continue: the last message is an answer.");
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
  if (summarize) chat.busy("summarizes the rest of the session");
  // A named prompt is forked before, to be written anew; without one the fork continues from here.
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
  if (summarize && made.summaryEntryId === null) chat.say("There is nothing else to summarize.");
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
  if (!isPolicy(name)) throw new CommandError("usage", `There is no policy ${name}; choose one of ${names}.`);
  const chosen = { ...choices, policy: name };
  await settingsFor(shell, chosen, () => `anthropic/${agent.model.modelId}`);
  await chat.move(session.file, chosen);
  chat.say(`The policy is ${chat.session.policy.name}, while this chat runs`);
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
  return [...lines, "Ctrl-C aborts the answer; lines that you type meanwhile are queued."].join("\n");
}

/** Runs a line that begins with `/`. */
async function runChatCommand(chat: Chat, line: string): Promise<void> {
  const [, name = "", argument = ""] = /^\/(\S*)\s*(.*)$/s.exec(line) ?? [];
  const command = CHAT_COMMANDS.find((one) => one.name === name);
  if (!command && chat.session.commands.some((one) => one.name === name))
    return chat.session.runCommand(name, argument.trim(), chat.signal);
  if (!command) return chat.say(`There is no command /${plainLine(name)}; /help lists them.`);
  if (chat.agent.isRunning && !command.anytime)
    return chat.say("An answer is still coming; wait for it, or abort it with Ctrl-C.");
  await command.run(chat, argument.trim());
}
