import type { Agent } from "@espalier/agent";
import type { Session } from "@espalier/engine";
import { isMessage, messageText } from "@espalier/session-tree";
import { lineDialogs, type Shell } from "../shell.ts";
import { cutToColumns, plainLine } from "../text.ts";
import { completeChat, runChatCommand } from "./chat-commands.ts";
import { ChatDrawing, viewGreeting, viewState } from "./chat-drawing.ts";
import { ChatScreen } from "./chat-screen.ts";
import { type ChatChoices, type Conversation, openConversation } from "./conversation.ts";

/** Talks with a person until they leave, and closes the session they end in. */
export async function runChat(shell: Shell, ref: string | undefined, choices: ChatChoices): Promise<void> {
  let { complain, interactive } = shell;
  const questions = new Questions();
  let setStatus: (key: string, text: string | undefined) => void = () => {};
  const inChat = lineDialogs(
    (text) => complain(text),
    (question, signal) => questions.ask(question, signal, (said) => complain(said)),
  );
  // Before the screen is drawn, questions are asked as by every command.
  const dialogs = () => (interactive ? shell.dialogs : undefined) ?? inChat;
  const chatShell: Shell = {
    ...shell,
    get columns() {
      // A row as wide as the terminal would make some begin another one.
      return (process.stdout.columns || 80) - 1;
    },
    get interactive() {
      return interactive;
    },
    complain: (sentence) => complain(sentence),
    dialogs: {
      confirm: (...asked) => dialogs().confirm(...asked),
      select: (...asked) => dialogs().select(...asked),
      input: (...asked) => dialogs().input(...asked),
    },
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
export class Chat {
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
      complete: (before) => completeChat(this, before),
      onLine: (line) => this.#take(line),
      onEscape: () => void this.#abort(),
      onInterrupt: () => this.#interrupt(),
      onClose: () => void this.#leave().then(end),
    });
    this.#conversation = first;
    this.#drawing = this.#enter(first);
    this.say(viewGreeting(first.session, shell.colours));
    this.#drawing.recall();
    if (first.session.isReadOnly) this.say(shell.colours.yellow(READ_ONLY));
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

  get address(): Conversation["address"] {
    return this.#conversation.address;
  }

  say(text: string): void {
    this.#drawing.say(text);
  }

  /** Shows the newest prompt and its answer again. */
  recall(): void {
    this.#drawing.recall();
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
    if (this.#questions.take(line) || line === "") return;
    const acting = line.startsWith("/") ? this.#runCommand(line) : this.#run(line);
    this.#acting.add(acting);
    void acting.finally(() => this.#acting.delete(acting));
  }

  /** Runs a prompt; an error is shown, and the chat continues. A text that is not in the session comes back. */
  async #run(text: string): Promise<void> {
    if (this.session.isReadOnly) {
      this.#screen.restore(text);
      this.say(this.shell.colours.yellow(READ_ONLY));
      return;
    }
    const { tree } = this.session;
    const before = tree.length;
    try {
      await this.agent.run(text);
    } catch (error) {
      this.say(this.shell.colours.red(plainLine((error as Error).message)));
      if (!isIn(this.session, before, text)) this.#screen.restore(text);
    }
  }

  async #runCommand(line: string): Promise<void> {
    const { colours } = this.shell;
    this.say(colours.dim(`\n› ${plainLine(line)}`));
    if (this.#command) {
      this.#screen.restore(line);
      return this.say("Another command is running; Esc aborts it.");
    }
    this.#command = new AbortController();
    try {
      await runChatCommand(this, line);
    } catch (error) {
      this.say(colours.red(plainLine(viewCommandError(error))));
    } finally {
      this.#command = undefined;
      if (!this.agent.isRunning) this.#drawing.idle();
    }
  }

  /** Ends what is going on; false where nothing is. */
  #abort(): boolean {
    if (this.#questions.take(undefined)) return true;
    if (this.#acting.size === 0) return false;
    this.#command?.abort();
    this.agent.abort();
    return true;
  }

  /** Ctrl-C: ends what is going on, else clears the input, else leaves; it asks before the last two. */
  #interrupt(): void {
    if (this.#abort()) return;
    const isTyped = this.#screen.draft !== "";
    const question = isTyped
      ? "Press Ctrl-C again to clear the text; ↑ brings it back."
      : "Press Ctrl-C again to leave.";
    if (!this.#screen.confirm(this.shell.colours.dim(cutToColumns(question, this.#screen.columns - 1))))
      return;
    if (isTyped) this.#screen.clear();
    else this.quit();
  }

  async #leave(): Promise<void> {
    this.#questions.take(undefined);
    this.#command?.abort();
    this.agent.abort("all");
    await Promise.all(this.#acting);
    this.#drawing.idle();
    this.#stopListening();
    const { id, leafId } = this.session;
    const { draft } = this.#screen;
    if (draft.trim() !== "") this.say(`Not sent: ${draft}`);
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

const READ_ONLY = "This session is only read here; /fork makes a session of your own.";

/** Sentence of a command's error; its cure is a command of the chat. */
function viewCommandError(error: unknown): string {
  const { code, message } = error as Error & { code?: unknown };
  return code === "read-only" ? READ_ONLY : message.replace("`espalier tree`", "/tree --all");
}

/** Returns whether a prompt was recorded from a row on. */
function isIn({ tree }: Session, from: number, text: string): boolean {
  for (let row = from; row < tree.length; row++) {
    const entry = tree.entryAt(row);
    if (isMessage(entry, "user") && messageText(entry.message) === text) return true;
  }
  return false;
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
