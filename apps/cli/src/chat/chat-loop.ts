import type { Agent } from "@espalier/agent";
import type { Session } from "@espalier/engine";
import { messageText } from "@espalier/session-tree";
import { lineDialogs, type Shell } from "../shell.ts";
import { plainLine } from "../text.ts";
import { CHAT_COMMANDS, type Chat, runChatCommand } from "./chat-commands.ts";
import { ChatDrawing } from "./chat-drawing.ts";
import { ChatScreen } from "./chat-screen.ts";
import { viewGreeting, viewState } from "./chat-view.ts";
import { type ChatChoices, type Conversation, openConversation } from "./conversation.ts";

/** Talks with a person until they leave, and closes the session they end in. */
export async function runChat(shell: Shell, ref: string | undefined, choices: ChatChoices): Promise<void> {
  let { complain, interactive } = shell;
  const questions = new Questions();
  let setStatus: (key: string, text: string | undefined) => void = () => {};
  const heard: Shell = {
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
  const log = new ChatLog(heard);
  const loop = new ChatLoop(heard, log, await openConversation(heard, ref, choices, log), questions);
  setStatus = (key, text) => loop.setStatus(key, text);
  // From here on the screen is drawn, and no other question can be asked on it.
  interactive = false;
  complain = (sentence) => loop.say(shell.colours.yellow(plainLine(sentence)));
  await loop.ended;
  shell.exitCode = heard.exitCode;
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

/** Lines in, words of the model out. */
class ChatLoop implements Chat {
  readonly shell: Shell;
  readonly ended: Promise<void>;
  readonly #log: ChatLog;
  readonly #screen: ChatScreen;
  /** What is being carried out. */
  readonly #acting = new Set<Promise<void>>();
  readonly #questions: Questions;
  #conversation: Conversation;
  #drawing: ChatDrawing;
  #stopListening: () => void = () => {};
  /** Ends the command that runs; undefined while none does. */
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

  edit(text: string): void {
    this.#screen.edit(text);
  }

  get signal(): AbortSignal {
    return this.#command?.signal ?? AbortSignal.abort();
  }

  busy(what: string): void {
    this.#drawing.busy(what);
  }

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

  /** What goes wrong is said, and the chat goes on. */
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
    if (this.#command) return this.say("Another command is being carried out; Ctrl-C ends it.");
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
 * What goes wrong without stopping anything, in a chat. Failures are told where they belong, by the agent's events and
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

  /** Why the last thing failed; empty when nothing has since it was asked. */
  takeReason(): string {
    const reason = this.#reason;
    this.#reason = "";
    return reason;
  }
}

/** How many prompts the arrow keys bring back. */
const REMEMBERED = 200;

/** What was said to the model on this path, newest first. */
function promptsOf({ context }: Session): string[] {
  const prompts = context.messages.flatMap((message) =>
    message.role === "user" ? [messageText(message)] : [],
  );
  return [...new Set(prompts.reverse())].slice(0, REMEMBERED);
}
