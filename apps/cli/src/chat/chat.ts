// Separate from interactive.ts: it is loaded by `chat` alone.
import type { Agent } from "@espalier/agent";
import type { OpenOptions, Session } from "@espalier/engine";
import { isMessage, messageText } from "@espalier/session-tree";
import { consoleTo, lineDialogs, type Shell } from "../shell.ts";
import { cutToColumns, plainLine } from "../text.ts";
import { completeChat, runChatCommand } from "./chat-commands.ts";
import { ChatDrawing, viewGreeting, viewState } from "./chat-drawing.ts";
import { ChatScreen } from "./chat-screen.ts";
import { type ChatChoices, type Conversation, openConversation } from "./conversation.ts";
import { UnsentFile } from "./unsent-texts.ts";

/** Talks with a person until they leave, and closes the last session. */
export async function runChat(shell: Shell, ref: string | undefined, choices: ChatChoices): Promise<void> {
  let loop: Chat | undefined;
  const complain = (sentence: string) => (loop ? loop.warn(sentence) : shell.complain(sentence));
  consoleTo(complain);
  const inChat = lineDialogs(complain, async (question, signal) => loop?.ask(question, signal));
  // Before the screen is drawn, and after the user has left it, questions are asked as in every command.
  const dialogs = () => (loop?.isDrawn ? undefined : shell.dialogs) ?? inChat;
  const chatShell: Shell = {
    ...shell,
    get columns() {
      // One column is left free, because some terminals begin a new row after a full one.
      return (process.stdout.columns || 80) - 1;
    },
    get interactive() {
      return shell.interactive && !loop?.isDrawn;
    },
    complain,
    dialogs: {
      confirm: (...asked) => dialogs().confirm(...asked),
      select: (...asked) => dialogs().select(...asked),
      input: (...asked) => dialogs().input(...asked),
    },
    setStatus: () => loop?.drawing.refresh(),
  };
  const log: ChatLog = {
    reason: "",
    warn: complain,
    error(message, details) {
      log.reason = details?.error instanceof Error ? details.error.message : message;
    },
  };
  loop = new Chat(chatShell, log, await openConversation(chatShell, ref, choices, log));
  await loop.ended;
}

/** Log of a chat. Warnings are printed. An error is kept as `reason`, because events and commands report failures. */
type ChatLog = NonNullable<OpenOptions["log"]> & { reason: string };

/** A running chat: reads lines, runs prompts and commands, shows answers. */
export class Chat {
  readonly shell: Shell;
  readonly log: ChatLog;
  /** Resolves when the user has left; rejects when a session could not be closed, or the next one not opened. */
  readonly ended: Promise<void>;
  readonly #screen: ChatScreen;
  /** Runs and commands that have not ended yet. */
  readonly #acting = new Set<Promise<void>>();
  /** Receives the next line as the answer to the open question of an extension. */
  #answerQuestion: ((line: string | undefined) => void) | undefined;
  conversation: Conversation;
  drawing: ChatDrawing;
  #stopListening: () => void = () => {};
  readonly #unsent: UnsentFile;
  readonly #keeping: NodeJS.Timeout;
  /** Received text of the running answer. */
  #received = "";
  /** The running command. While one runs alone, no answer begins, because the command changes the conversation. */
  #command: { readonly controller: AbortController; isAlone: boolean } | undefined;
  /** Error that ended the chat. */
  #failure: unknown;

  constructor(shell: Shell, log: ChatLog, first: Conversation) {
    this.shell = shell;
    this.log = log;
    let end: (left: Promise<void>) => void = () => {};
    this.ended = new Promise((resolve) => {
      end = resolve;
    });
    this.#screen = new ChatScreen({
      history: promptsOf(first.session),
      complete: (before) => completeChat(this, before),
      rows: () => this.drawing.rows(),
      onLine: (line) => this.#take(line),
      onEscape: () => void this.#abort(),
      onInterrupt: () => this.#interrupt(),
      onClose: () => end(this.#leave()),
    });
    this.conversation = first;
    this.drawing = this.#enter(first);
    this.say(viewGreeting(first.session, shell.colours));
    this.drawing.recall();
    if (first.session.isReadOnly) this.warn(READ_ONLY);
    this.#unsent = new UnsentFile((sentence) => this.warn(sentence));
    const { draft, answer } = this.#unsent.take(first.session);
    if (answer !== "" && first.agent.state.state === "outcome-unknown") this.drawing.showInterrupted(answer);
    for (const sentence of viewState(first.agent)) this.warn(sentence);
    if (draft !== "") this.restore(draft);
    this.#keeping = setInterval(this.#keep, KEEP_MS).unref();
    // A signal ends the process when its terminal is closed.
    process.on("exit", this.#keep);
    this.drawing.refresh();
  }

  /** Writes the texts that are not in the session to their file. */
  readonly #keep = (): void =>
    this.#unsent.keep(this.session, { draft: this.#screen.unsent, answer: this.#received });

  get session(): Session {
    return this.conversation.session;
  }

  get agent(): Agent {
    return this.conversation.agent;
  }

  say(text: string): void {
    this.drawing.say(text);
  }

  warn(sentence: string): void {
    this.say(this.shell.colours.yellow(plainLine(sentence)));
  }

  /** Asks a question of an extension. Resolves with the next line; undefined when the question was cancelled. */
  ask(question: string, signal: AbortSignal | undefined): Promise<string | undefined> {
    this.warn(question);
    return new Promise((resolve) => {
      const close = () => this.#answer(undefined);
      this.#answerQuestion = (line) => {
        signal?.removeEventListener("abort", close);
        resolve(line);
      };
      signal?.addEventListener("abort", close, { once: true });
    });
  }

  /** Answers the open question with a line, or cancels it. Returns false when no question is open. */
  #answer(line: string | undefined): boolean {
    const answer = this.#answerQuestion;
    this.#answerQuestion = undefined;
    answer?.(line);
    return answer !== undefined;
  }

  /** Puts a text into the input for editing; if the user has typed another one since, into the history. */
  edit(text: string): void {
    if (this.#screen.restore(text) === "history") this.#sayOf("↑ brings it into the input", text);
  }

  /** Puts an unsent text back into the input, or into the history if the input has a text, and prints the place. */
  restore(text: string): void {
    const place = this.#screen.restore(text);
    this.#sayOf(place === "input" ? "Not sent; it is in the input" : "Not sent; ↑ restores it", text);
  }

  #sayOf(sentence: string, text: string): void {
    this.say(`${sentence}: ${cutToColumns(plainLine(text), NAMED_WIDTH)}`);
  }

  /** Signal that aborts the running command; already aborted when no command runs. */
  get signal(): AbortSignal {
    return this.#command?.controller.signal ?? AbortSignal.abort();
  }

  /** Lets no answer begin until the running command has ended. */
  runAlone(): void {
    if (this.#command) this.#command.isAlone = true;
  }

  quit(): void {
    this.#screen.close();
  }

  /** True until the user leaves. */
  get isDrawn(): boolean {
    return this.#screen.isOpen;
  }

  /** Closes the session; continues in another one, or in this one with other choices. A failure ends the chat. */
  async move(ref: string, choices: ChatChoices, why: "fork" | "reload" = "reload"): Promise<void> {
    this.#stopListening();
    this.drawing.idle();
    try {
      await this.session.close(why);
      this.drawing = this.#enter(await openConversation(this.shell, ref, choices, this.log, why));
      this.drawing.refresh();
    } catch (error) {
      // No session is left to continue in, so the chat ends.
      this.#failure = error;
      this.quit();
      throw error;
    }
  }

  #enter(conversation: Conversation): ChatDrawing {
    this.conversation = conversation;
    const drawing = new ChatDrawing(this.#screen, this.shell.colours, conversation);
    this.#stopListening = conversation.agent.on((event) => {
      drawing.draw(event);
      if (event.type === "agent_start") this.#received = "";
      if (event.type === "text") this.#received += event.text;
      if (event.type !== "answer") return;
      this.#received = "";
      this.#keep();
    });
    return drawing;
  }

  #take(line: string): void {
    if (this.#answer(line) || line === "") return;
    const acting = line.startsWith("/") ? this.#runCommand(line) : this.#run(line);
    this.#acting.add(acting);
    void acting.finally(() => this.#acting.delete(acting));
  }

  /** Runs a prompt; an error is shown, and the chat continues. A prompt that was not recorded returns to the input. */
  async #run(text: string): Promise<void> {
    if (this.#command?.isAlone) return this.#refuse(text, BUSY);
    const { session, agent } = this;
    if (session.isReadOnly) return this.#refuse(text, this.shell.colours.yellow(READ_ONLY));
    const before = session.tree.length;
    try {
      await agent.run(text);
    } catch (error) {
      this.say(this.shell.colours.red(plainLine((error as Error).message)));
      if (!isIn(session, before, text)) this.#screen.restore(text);
    }
  }

  /** Returns a line to the input, and says why. */
  #refuse(line: string, why: string): void {
    this.#screen.restore(line);
    this.say(why);
  }

  async #runCommand(line: string): Promise<void> {
    const { colours } = this.shell;
    this.say(colours.dim(`\n› ${plainLine(line)}`));
    if (this.#command) return this.#refuse(line, BUSY);
    this.#command = { controller: new AbortController(), isAlone: false };
    try {
      await runChatCommand(this, line);
    } catch (error) {
      if (error !== this.#failure) this.say(colours.red(plainLine(viewCommandError(error))));
    } finally {
      this.#command = undefined;
      this.drawing.idle(this.agent.isRunning ? "command" : undefined);
    }
  }

  /** Cancels the open question of an extension, else aborts the current run and command. Returns false when idle. */
  #abort(): boolean {
    if (this.#answer(undefined)) return true;
    if (this.#acting.size === 0) return false;
    this.#command?.controller.abort();
    this.agent.abort();
    return true;
  }

  /** Handles Ctrl-C: cancels a question, else aborts run and command, else asks, then clears the input or leaves. */
  #interrupt(): void {
    if (this.#abort()) return;
    const isTyped = this.#screen.draft !== "";
    const question = isTyped
      ? "Press Ctrl-C again to clear the text; ↑ restores it."
      : "Press Ctrl-C again to leave.";
    if (!this.#screen.confirm(this.shell.colours.dim(question))) return;
    if (isTyped) this.#screen.clear();
    else this.quit();
  }

  async #leave(): Promise<void> {
    this.#answer(undefined);
    this.#command?.controller.abort();
    this.agent.abort("all");
    await Promise.all(this.#acting);
    this.drawing.idle();
    this.#stopListening();
    const { id, leafId } = this.session;
    const { unsent } = this.#screen;
    clearInterval(this.#keeping);
    process.off("exit", this.#keep);
    this.#keep();
    const isUnsent = unsent.trim() !== "";
    if (isUnsent) this.say(`Not sent: ${unsent}`);
    const command = leafId === null ? "espalier chat" : `espalier chat ${id}`;
    if (isUnsent || leafId !== null)
      this.say(this.shell.colours.dim(`To continue${isUnsent ? " with this text" : ""}: ${command}`));
    await this.session.close();
    if (this.#failure) throw this.#failure;
  }
}

/** Interval in milliseconds at which unsent texts are written to their file. */
const KEEP_MS = 1_000;

/** Maximum width in columns of a text in a sentence. */
const NAMED_WIDTH = 60;

const BUSY = "Another command is running; Esc aborts it.";

const READ_ONLY = "This session is read-only here; /fork creates a session of your own.";

/** Describes an error of a command. The suggested fix is a command of the chat. */
function viewCommandError(error: unknown): string {
  const { code, message } = error as Error & { code?: unknown };
  return code === "read-only" ? READ_ONLY : message.replace("`espalier tree`", "/tree --all");
}

/** Returns whether a prompt was recorded at or after a row. */
function isIn({ tree }: Session, from: number, text: string): boolean {
  for (let row = from; row < tree.length; row++) {
    const entry = tree.entryAt(row);
    if (isMessage(entry, "user") && messageText(entry.message) === text) return true;
  }
  return false;
}

/** Maximum number of prompts in the history of the arrow keys. */
const REMEMBERED = 200;

/** Returns the newest 200 different prompts of this path, newest first. */
function promptsOf({ context }: Session): string[] {
  const prompts = context.messages.flatMap((message) =>
    message.role === "user" ? [messageText(message)] : [],
  );
  return [...new Set(prompts.reverse())].slice(0, REMEMBERED);
}
