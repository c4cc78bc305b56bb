import type { Agent, AgentEvent } from "@espalier/agent";
import type { Session } from "@espalier/engine";
import { addBill, billedCallAt, nothingBilled, type UsageTotals } from "@espalier/engine/reading";
import {
  type AssistantMessage,
  compaction,
  type Entry,
  isMessage,
  messageText,
  type ToolCallBlock,
  type Tree,
  titleOf,
} from "@espalier/session-tree";
import { MarkdownStream, renderMarkdown } from "../markdown/markdown.ts";
import { formatBill, formatCost, formatCount, formatMany } from "../numbers.ts";
import type { Colours } from "../shell.ts";
import { cutLine, cutToColumns, plainLine, plainText, wrapWords } from "../text.ts";
import type { ChatScreen } from "./chat-screen.ts";
import { type Conversation, providerMessage } from "./conversation.ts";

const TURNS = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/** Milliseconds between two drawings of changing rows. */
const INTERVAL = 80;

/** Maximum number of characters of a running answer that are laid out; only its last rows are shown. */
const LONGEST_PENDING = 16_000;

/** Owner of an activity, which also ends it. */
type Owner = "run" | "command";

/** Draws a conversation on a screen: finished text scrolls up and stays, a running answer is redrawn as it grows. */
export class ChatDrawing {
  readonly #screen: ChatScreen;
  readonly #colours: Colours;
  readonly #conversation: Conversation;
  /** Bill of the session on all branches, up to this row. */
  readonly #bill = { row: 0, total: nothingBilled() };
  readonly #answer = new MarkdownStream();
  /** The current activities; the last one is shown. */
  readonly #activities = new Map<Owner, { what: string; since: number }>();
  #timer: NodeJS.Timeout | undefined;
  #turn = 0;
  /** True while a compaction runs that the user started: then its command prints the result, not its event. */
  isCompactingByHand = false;

  constructor(screen: ChatScreen, colours: Colours, conversation: Conversation) {
    this.#screen = screen;
    this.#colours = colours;
    this.#conversation = conversation;
  }

  /** Prints finished text; long lines are broken between words. */
  say(text: string): void {
    const lines = text.split("\n").flatMap((line) => wrapWords(line, this.#screen.columns - 1));
    this.#screen.say(lines.join("\n"));
  }

  /** Shows an activity until `idle` is called for its owner. */
  busy(what: string, owner: Owner = "run"): void {
    const before = this.#activities.get(owner);
    // Text arrives faster than a terminal draws, so the timer draws it.
    if (before?.what === what && before === this.#activity) return;
    this.#activities.delete(owner);
    this.#activities.set(owner, { what, since: before?.since ?? Date.now() });
    this.#timer ??= setInterval(() => this.refresh(), INTERVAL);
    this.refresh();
  }

  get #activity() {
    return [...this.#activities.values()].at(-1);
  }

  /** Ends the activity of an owner; without one, all. */
  idle(owner?: Owner): void {
    if (owner) this.#activities.delete(owner);
    else this.#activities.clear();
    if (this.#activities.size === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
    }
    this.refresh();
  }

  refresh(): void {
    this.#screen.refresh();
  }

  /** Returns the rows above the input: running answer, activity, waiting messages, statuses of extensions, footer. */
  rows(): string[] {
    const { agent, session, statuses } = this.#conversation;
    const { dim, cyan } = this.#colours;
    const row = (text: string, style = dim) => style(cutToColumns(text, this.#screen.columns - 1));
    const activity = this.#activity;
    // Without a run nothing sends the queued messages, so the row names the command that does.
    const waits = activity ? "waits" : "not sent, /continue sends it";
    const below = [
      "",
      ...(activity ? [row(this.#activityLine(activity), cyan)] : []),
      ...agent.queued.map(({ text }) => row(`  ${waits}: ${plainLine(text)}`)),
      ...[...statuses.values()].map((text) => row(text)),
      row(viewFooter(agent, this.#billOf(session.tree))),
    ];
    const rows = this.#markdown(this.#answer.pending.slice(-LONGEST_PENDING)).slice(
      -Math.max(1, this.#screen.liveRows - below.length - 1),
    );
    return [...(rows.length > 0 ? ["", ...rows] : []), ...below];
  }

  draw(event: AgentEvent): void {
    this.#drawn[event.type]?.(event as never);
  }

  /** Drawing function of each event; other events change nothing on the screen. */
  readonly #drawn: { readonly [Type in AgentEvent["type"]]?: (event: EventOf<Type>) => void } = {
    agent_start: () => this.busy("begins"),
    entry: ({ entry }) => isMessage(entry, "user") && this.#showPrompt(messageText(entry.message)),
    request: () => this.busy("waits for the model"),
    thinking: () => this.busy("thinks"),
    text: ({ text }) => {
      // Finished blocks of the answer are printed and not drawn again.
      this.#block(this.#answer.take(text));
      this.busy("answers");
    },
    answer: ({ message }) => {
      this.#block(this.#answer.end());
      this.#sayEnd(message);
    },
    tool_start: ({ call }) => this.busy(`runs ${plainLine(call.name)}`),
    tool_end: (event) => this.say(viewCall(event, this.#colours)),
    queued: () => this.refresh(),
    offload_done: ({ offloadedCount, freedTokens }) =>
      this.#note(
        `Moved ${formatMany(offloadedCount, "tool result")} to files, freed ${formatCount(freedTokens)} tokens`,
      ),
    pictures_left_out: ({ messages, reasons }) =>
      this.#note(
        `(images of ${formatMany(messages, "message")} are left out from now on: ${plainLine(reasons.join("; "))})`,
      ),
    compact_start: ({ message }) => this.busy(message, this.isCompactingByHand ? "command" : "run"),
    compact_done: ({ tokensBefore, tokensAfter, messagesRemoved }) => {
      if (!this.isCompactingByHand)
        this.#note(
          `Session compacted: ${tokensBefore} → ${tokensAfter} tokens (removed ${messagesRemoved} messages)`,
        );
      const { entries } = this.#conversation.session.window;
      if (isExtractive(entries.findLast(compaction.is))) this.#note(EXTRACTIVE);
    },
    compact_failed: ({ message }) => this.say(this.#colours.yellow(plainLine(message))),
    retry: () => this.#note("(the request was too long; it is sent again, shorter)"),
    agent_end: () => {
      // No event reports an answer that could not be recorded.
      this.#block(this.#answer.end());
      this.idle("run");
    },
  };

  /** Shows the user's position in the conversation: the newest prompt, its answer, and the reason of a failure. */
  recall(): void {
    const { messages } = this.#conversation.session.context;
    const at = messages.findLastIndex(({ role }) => role === "user");
    const answer = messages.findLast((one): one is AssistantMessage => one.role === "assistant");
    if (at < 0) return;
    if (at > 0) this.#note(`… ${formatMany(at, "message")} above; /context shows them`);
    this.#showPrompt(messageText(messages[at]!));
    if (!answer || messages.indexOf(answer) < at) return;
    this.#block(messageText(answer));
    this.#sayEnd(answer);
  }

  /** Shows a message of the user when it is in the log. */
  #showPrompt(text: string): void {
    const [first = "", ...rest] = plainText(text).split("\n");
    this.say(["", `${this.#colours.bold("›")} ${first}`, ...rest.map((line) => `  ${line}`)].join("\n"));
  }

  /** Prints the beginning of an answer whose process ended before the answer did. */
  showInterrupted(answer: string): void {
    this.#note("\nThe answer was interrupted. This is its beginning; the model does not read it:");
    this.#block(answer);
  }

  /** Prints a sentence about an incomplete answer; nothing for a complete one. */
  #sayEnd({ stopReason, errorMessage }: AssistantMessage): void {
    const { dim, yellow, red } = this.#colours;
    if (stopReason === "aborted") this.say(`\n${dim("(aborted)")}`);
    if (stopReason === "length") this.say(`\n${yellow("(cut off at the maximum length of an answer)")}`);
    if (stopReason !== "error") return;
    const { address } = this.#conversation;
    const why = providerMessage(errorMessage ?? "The model failed without a message.", address);
    this.say(`\n${red(plainLine(why))} ${dim("(/continue retries)")}`);
  }

  #note(text: string): void {
    this.say(this.#colours.dim(text));
  }

  #block(text: string): void {
    const lines = this.#markdown(text);
    if (lines.length > 0) this.say(["", ...lines].join("\n"));
  }

  #markdown(text: string): string[] {
    if (text.trim() === "") return [];
    // Lines are one column narrower than the terminal, because some terminals begin a new row after a full one.
    return renderMarkdown(text, { columns: this.#screen.columns - 1, colours: this.#colours });
  }

  #activityLine({ what, since }: { what: string; since: number }): string {
    const seconds = Math.floor((Date.now() - since) / 1_000);
    return `${TURNS[this.#turn++ % TURNS.length]} ${what} · ${seconds} s · Esc aborts it`;
  }

  /** Adds the calls of the entries that were appended since the last call. */
  #billOf(tree: Tree): UsageTotals {
    for (; this.#bill.row < tree.length; this.#bill.row++) {
      const call = billedCallAt(tree, this.#bill.row);
      if (call) addBill(this.#bill.total, call.usage, call);
    }
    return this.#bill.total;
  }
}

/** Maximum width in columns of a tool call's line. */
const CALL_WIDTH = 100;

type EventOf<Type extends AgentEvent["type"]> = Extract<AgentEvent, { type: Type }>;

/** Maximum width in columns of a session's title. */
const TITLE = 60;

/** Title of a session, a hint to the help, and its file. */
export function viewGreeting({ tree, file, leafId }: Session, colours: Colours): string {
  const title = cutToColumns(
    plainLine((leafId === null ? undefined : titleOf(tree)) ?? "A new session"),
    TITLE,
  );
  return `${colours.bold(title)} · /help lists the commands.\n${colours.dim(file)}`;
}

/** Draws a tool call as one line, with the number of lines of its result, or the text of its error. */
function viewCall({ call, result }: EventOf<"tool_end">, colours: Colours): string {
  const text = plainText(messageText(result)).trimEnd();
  const lines = text === "" ? "nothing" : formatMany(text.split("\n").length, "line");
  const line = `${callLine(call)} · ${result.isError ? plainLine(text) : lines}`;
  return result.isError ? colours.red(`✗ ${cutLine(line, CALL_WIDTH)}`) : colours.dim(`• ${line}`);
}

function callLine({ name, arguments: given }: ToolCallBlock): string {
  const values = Object.entries(given ?? {}).map(
    ([key, value]) => `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`,
  );
  return cutLine(plainLine(`${name} ${values.join(" ")}`), CALL_WIDTH - 20);
}

/** Note on a summary that was extracted although a model was asked. */
export const EXTRACTIVE =
  "The summary was extracted from the messages, because the model wrote no usable summary.";

/** Returns true for a summary that was written without a model. */
export const isExtractive = (entry: Entry | undefined): boolean =>
  (entry as { details?: { source?: unknown } } | undefined)?.details?.source === "extractive";

/** Status line: the model, the used share of its window, the cost of the session on all its branches. */
function viewFooter({ model, contextTokens, contextWindow }: Agent, bill: UsageTotals): string {
  const { modelId } = model;
  const share = Math.round((contextTokens / contextWindow) * 100);
  const cost = bill.calls > 0 ? formatBill(bill) : formatCost(0);
  return `${modelId} · ${formatCount(contextTokens)} of ${formatCount(contextWindow)} tokens (${share} %) · ${cost}`;
}

/** Notes on a conversation that does not end with an answer. */
const STANDS: Readonly<Record<string, string>> = {
  unsent:
    "The last message was never sent to the model. /continue sends it, /undo reverts it; you can also send another message.",
  "outcome-unknown":
    "The last request was sent, but its answer is unknown; it may have been billed, and another terminal may still receive it. /continue sends it again, /undo reverts the message.",
};

/** Sentences for the user about the end of the last run. */
export function viewState({ state: { state, openCalls }, queued }: Agent): string[] {
  const calls = openCalls.length === 1 ? "A tool call was" : `${openCalls.length} tool calls were`;
  const waiting = formatMany(queued.length, "message");
  return [
    ...(state in STANDS ? [STANDS[state]!] : []),
    ...(openCalls.length > 0 ? [`${calls} interrupted; they are not retried automatically.`] : []),
    ...(queued.length > 0
      ? [`${waiting} in the queue; they are sent with your next one, or by /continue.`]
      : []),
  ];
}
