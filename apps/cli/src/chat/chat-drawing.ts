import type { AgentEvent } from "@espalier/agent";
import { billedCallAt } from "@espalier/engine";
import { compaction, isMessage, messageText, type Tree } from "@espalier/session-tree";
import { brokenBetweenWords, MarkdownStream, renderMarkdown } from "../markdown/markdown.ts";
import { formatMany } from "../numbers.ts";
import type { Colours } from "../shell.ts";
import { cutToColumns, plainLine, plainText } from "../text.ts";
import type { ChatScreen } from "./chat-screen.ts";
import {
  EXTRACTIVE,
  isExtractive,
  viewAutomatic,
  viewCall,
  viewEnd,
  viewFooter,
  viewOffloaded,
} from "./chat-view.ts";
import type { Conversation } from "./conversation.ts";

const TURNS = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/** Milliseconds between two drawings of what changes. */
const INTERVAL = 80;

/** Characters of what is being said that are looked at for the few rows that are shown of it. */
const LONGEST_PENDING = 16_000;

/** Draws a conversation on a screen: what was said stays, what is being said is drawn anew as it grows. */
export class ChatDrawing {
  readonly #screen: ChatScreen;
  readonly #colours: Colours;
  readonly #conversation: Conversation;
  readonly #cost = new SessionCost();
  readonly #answer = new MarkdownStream();
  /** What is going on, and since when; undefined while nothing is. */
  #activity: { what: string; since: number } | undefined;
  #timer: NodeJS.Timeout | undefined;
  #turn = 0;
  /** What extensions keep below the conversation, by key. */
  readonly #statuses = new Map<string, string>();
  /** A compaction that was asked for tells what came of it by itself. */
  isCompactingByHand = false;

  constructor(screen: ChatScreen, colours: Colours, conversation: Conversation) {
    this.#screen = screen;
    this.#colours = colours;
    this.#conversation = conversation;
  }

  /** Says something that stays; what is too long for a row is broken between words. */
  say(text: string): void {
    const { columns } = this.#screen;
    const lines = text.split("\n");
    this.#screen.say(lines.flatMap((line) => brokenBetweenWords(line, columns - 1)).join("\n"));
  }

  /** Says that something is going on, until `idle`. */
  busy(what: string): void {
    // Words come faster than a terminal draws: the timer shows them.
    if (this.#activity?.what === what) return;
    this.#activity = { what, since: this.#activity?.since ?? Date.now() };
    this.#timer ??= setInterval(() => this.refresh(), INTERVAL);
    this.refresh();
  }

  idle(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#activity = undefined;
    this.refresh();
  }

  /** Shows a status of an extension; undefined takes it away. */
  setStatus(key: string, text: string | undefined): void {
    if (text === undefined) this.#statuses.delete(key);
    else this.#statuses.set(key, plainLine(text));
    this.refresh();
  }

  /** Draws what stands above the line to type in. */
  refresh(): void {
    const { agent, session } = this.#conversation;
    const { dim, cyan } = this.#colours;
    const row = (text: string, style = dim) => style(cutToColumns(text, this.#screen.columns - 1));
    const below = [
      "",
      ...(this.#activity ? [row(this.#activityLine(this.#activity), cyan)] : []),
      ...agent.queued.map(({ text }) => row(`  waits: ${plainLine(text)}`)),
      ...[...this.#statuses.values()].map((text) => row(text)),
      row(viewFooter(agent, this.#cost.of(session.tree))),
    ];
    const rows = this.#markdown(this.#answer.pending.slice(-LONGEST_PENDING)).slice(
      -Math.max(1, this.#screen.liveRows - below.length - 1),
    );
    this.#screen.show([...(rows.length > 0 ? ["", ...rows] : []), ...below]);
  }

  /** Draws what an event of the run changes. */
  draw(event: AgentEvent): void {
    DRAWN[event.type]?.call(this, event as never);
  }

  /** Shows the newest prompt and its answer again, so that one knows where one is. */
  recall(): void {
    const { messages } = this.#conversation.session.context;
    const at = messages.findLastIndex(({ role }) => role === "user");
    const answer = messages.findLast(({ role }) => role === "assistant");
    if (at < 0) return;
    if (at > 0) this.note(`… ${formatMany(at, "message")} above; /context shows them`);
    this.said(messageText(messages[at]!));
    if (answer && messages.indexOf(answer) > at) this.#block(messageText(answer));
  }

  /** A message of the user, when it is in the log. */
  said(text: string): void {
    const [first = "", ...rest] = plainText(text).split("\n");
    this.say(["", `${this.#colours.bold("›")} ${first}`, ...rest.map((line) => `  ${line}`)].join("\n"));
  }

  /** Words of the model: the blocks of them that do not change any more stay. */
  heard(text: string): void {
    this.#block(this.#answer.take(text));
  }

  /** The answer is over. */
  ended(how: string | undefined): void {
    this.#block(this.#answer.end());
    if (how !== undefined) this.say(`\n${how}`);
  }

  note(text: string): void {
    this.say(this.#colours.dim(text));
  }

  /** Whether the newest compaction was made without a model. */
  get isExtractive(): boolean {
    const { entries } = this.#conversation.session.window;
    return isExtractive(entries.findLast(compaction.is));
  }

  get colours(): Colours {
    return this.#colours;
  }

  #block(text: string): void {
    const lines = this.#markdown(text);
    if (lines.length > 0) this.say(["", ...lines].join("\n"));
  }

  #markdown(text: string): string[] {
    if (text.trim() === "") return [];
    // A row as wide as the terminal would make some begin another one.
    return renderMarkdown(text, { columns: this.#screen.columns - 1, colours: this.#colours });
  }

  #activityLine({ what, since }: { what: string; since: number }): string {
    const seconds = Math.floor((Date.now() - since) / 1_000);
    return `${TURNS[this.#turn++ % TURNS.length]} ${what} · ${seconds} s · Ctrl-C ends it`;
  }
}

/** What each event changes; those that are not here change nothing that is seen. */
const DRAWN: {
  [Type in AgentEvent["type"]]?: (this: ChatDrawing, event: Extract<AgentEvent, { type: Type }>) => void;
} = {
  agent_start() {
    this.busy("begins");
  },
  entry({ entry }) {
    if (isMessage(entry, "user")) this.said(messageText(entry.message));
  },
  request() {
    this.busy("waits for the model");
  },
  thinking() {
    this.busy("thinks");
  },
  text({ text }) {
    this.heard(text);
    this.busy("answers");
  },
  answer({ message }) {
    this.ended(viewEnd(message, this.colours));
  },
  tool_start({ call }) {
    this.busy(`runs ${plainLine(call.name)}`);
  },
  tool_end(event) {
    this.say(viewCall(event, this.colours));
  },
  queued() {
    this.refresh();
  },
  offload_done(event) {
    this.note(viewOffloaded(event));
  },
  pictures_left_out({ messages, reasons }) {
    this.note(
      `(pictures of ${formatMany(messages, "message")} are left out from now on: ${plainLine(reasons.join("; "))})`,
    );
  },
  compact_start({ message }) {
    this.busy(message);
  },
  compact_done(event) {
    if (!this.isCompactingByHand) this.note(viewAutomatic(event));
    if (this.isExtractive) this.note(EXTRACTIVE);
  },
  compact_failed({ message }) {
    this.say(this.colours.yellow(plainLine(message)));
  },
  retry() {
    this.note("(the request was too long; it is sent again, shorter)");
  },
  agent_end() {
    this.idle();
  },
};

/** What a session has cost in US dollars, over all its branches; each look counts only what came since the last one. */
class SessionCost {
  #counted = 0;
  #total = 0;

  of(tree: Tree): number {
    for (; this.#counted < tree.length; this.#counted++)
      this.#total += billedCallAt(tree, this.#counted)?.usage.cost?.total ?? 0;
    return this.#total;
  }
}
