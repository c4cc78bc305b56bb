// Separate from chat.ts: to add a command, only this table is edited.
import { type Dirent, readdirSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import type { Agent } from "@espalier/agent";
import { POLICY_NAMES, type Session, sessionFolder } from "@espalier/engine";
import { labelsInForce, promptText, type Tree } from "@espalier/session-tree";
import { anthropicModels } from "@espalier/summarizer";
import { navigate } from "../commands/changes.ts";
import { viewContext } from "../commands/context.ts";
import { describeEntry, viewTree } from "../commands/tree.ts";
import { actName, previewEntry } from "../entry-preview.ts";
import { entriesNamed, entryName, entryNamed, existing } from "../entry-reference.ts";
import { CommandError, nearest } from "../failure.ts";
import { formatAge, formatChange, formatCount, formatMany } from "../numbers.ts";
import { given } from "../options.ts";
import { cutToColumns, plainLine, wrapWords } from "../text.ts";
import type { Chat } from "./chat.ts";
import { EXTRACTIVE, isExtractive } from "./chat-drawing.ts";
import type { Candidate, Completion } from "./chat-screen.ts";
import { type ChatChoices, checkChoices, providerMessage } from "./conversation.ts";

interface ChatCommand {
  name: string;
  description: string;
  /** Candidates for the argument when the user presses Tab. */
  candidates?: (chat: Chat, typed: string) => Candidate[];
  /** True for commands that may run during an answer, and during which an answer may begin. */
  anytime?: boolean;
  /** True for commands that first read entries which other programs appended to the session. */
  readsOthers?: boolean;
  /** Sentence for a user who aborted the command. */
  aborted?: string;
  /** Returns what the chat says at the end, if anything. */
  run(chat: Chat, argument: string): Promise<string | undefined> | string | undefined;
}

/** Maximum number of lines of a view; a longer view shows its last lines. */
const SHOWN = 200;

const ANSWERING = "An answer is still coming; wait for it, or abort it with Esc.";

/** All commands, in the order of the help. A new command is a new element. */
const CHAT_COMMANDS: readonly ChatCommand[] = [
  {
    name: "tree",
    description: "Show the session as a tree; /tree --all shows every entry",
    anytime: true,
    readsOthers: true,
    run(chat, argument) {
      if (argument !== "" && argument !== "--all")
        throw new CommandError("usage", "The only option is --all: /tree [--all].");
      const { session, shell, agent } = chat;
      const options = { all: argument !== "", tokens: agent.contextTokens };
      return newest([...viewTree(session, shell, options)]);
    },
  },
  {
    name: "branches",
    description: "List the branches, newest first, each with its number for /navigate",
    anytime: true,
    readsOthers: true,
    run: branchLines,
  },
  {
    name: "navigate",
    description:
      "Continue from another entry: /navigate <id, label or number of /branches> [--summarize [focus]]",
    candidates: offeredEntries,
    readsOthers: true,
    aborted: "Navigation aborted, nothing was changed",
    run: goTo,
  },
  {
    name: "context",
    description: "Show what the model reads",
    anytime: true,
    run({ session, shell, agent }) {
      const { leafId, context } = session;
      return newest([...viewContext(session, leafId, context, shell, { tokens: agent.contextTokens })]);
    },
  },
  {
    name: "fork",
    description: "Fork into a new session: /fork [id] [--summarize]",
    candidates: offeredEntries,
    readsOthers: true,
    aborted: "Fork aborted, no session was created",
    run: fork,
  },
  {
    name: "compact",
    description: "Compress conversation history",
    anytime: true,
    aborted: "Compaction aborted, history unchanged",
    run: compact,
  },
  {
    name: "label",
    description: "Label the last entry; without a text, remove its label",
    async run({ session }, text) {
      const { leafId } = session;
      if (leafId === null) return "There is no entry to label yet.";
      if (!text && session.getLabel(leafId) === undefined)
        return "The last entry has no label; /label <text> sets one.";
      await session.label(leafId, text);
      const id = plainLine(leafId);
      return text ? `Labelled ${id}: ${plainLine(text)}` : `The label of ${id} was removed.`;
    },
  },
  {
    name: "hide",
    description: "Hide an entry from the model: /hide <id>",
    candidates: offeredEntries,
    async run(chat, reference) {
      if (!reference) return "Name an entry: /hide <id>; /context lists them.";
      const meant = entryMeant(chat, reference);
      if (meant === undefined) return;
      const id = existing(meant, reference);
      await chat.session.hide(id);
      const tokens = formatCount(chat.agent.contextTokens);
      return `${plainLine(id)} is hidden, and the model reads ${tokens} tokens; /undo shows it again.`;
    },
  },
  {
    name: "name",
    description: "Name the session; without a text, show its name",
    anytime: true,
    async run({ session }, text) {
      if (text) await session.rename(text);
      const { name } = session;
      return name ? `The session is called ${plainLine(name)}` : "The session has no name yet.";
    },
  },
  {
    name: "model",
    description: "Show the model, or /model <id> to change it",
    candidates: (_, typed) => beginning(Object.keys(anthropicModels), typed),
    run: chooseModel,
  },
  {
    name: "policy",
    description: "Show the compaction policy, or /policy <name> to change it",
    candidates: (_, typed) => beginning(POLICY_NAMES, typed),
    run: choosePolicy,
  },
  {
    name: "undo",
    description: "Undo the newest prompt (its text returns to the input), /compact, /hide or label",
    async run(chat) {
      const { editorText, act } = await chat.session.undo();
      chat.say(`Undone: ${actName(act)}; /redo restores it.`);
      if (editorText) chat.edit(editorText);
    },
  },
  {
    name: "redo",
    description: "Redo what /undo undid",
    run: async ({ session }) => `Redone:  ${actName((await session.redo()).act)}.`,
  },
  {
    name: "continue",
    description: "Retry the last prompt if it has no answer",
    anytime: true,
    async run({ agent, signal }) {
      if (agent.isRunning) return ANSWERING;
      const isDone = (await agent.continue()) !== null || signal.aborted;
      return isDone ? undefined : "There is nothing to continue: the last message is an answer.";
    },
  },
  { name: "help", description: "Show this help", anytime: true, run: helpText },
  { name: "quit", description: "Leave the chat", anytime: true, run: (chat) => void chat.quit() },
];

async function fork(chat: Chat, argument: string): Promise<string | undefined> {
  const { session, signal } = chat;
  const words = argument.split(/\s+/).filter((word) => word !== "");
  const summarize = words.includes("--summarize");
  const [reference, ...more] = words.filter((word) => word !== "--summarize");
  if (more.length > 0) throw new CommandError("usage", "Name only one entry: /fork <id> [--summarize].");
  const meant = reference === undefined ? session.leafId : entryMeant(chat, reference);
  if (meant === undefined) return;
  if (meant === null && reference === undefined) return "There is nothing to fork yet.";
  const from = existing(meant, reference ?? "");
  if (summarize) chat.drawing.busy("summarizes the rest of the session", "command");
  // For a named prompt the fork ends before it, so that it can be edited. Without an entry the fork ends at the leaf.
  const isPrompt =
    reference !== undefined && promptText(session.tree.entryAt(session.tree.row(from))) !== null;
  const position = isPrompt ? "before" : "at";
  const made = await session.fork(from, { position, summarize, signal, ...chat.agent.summaries });
  chat.say(`Forked to ${plainLine(made.id)}\n${made.file}`);
  if (summarize && made.summaryEntryId === null) chat.say("There is nothing else to summarize.");
  await chat.move(made.file, chat.conversation.choices, "fork");
  if (made.summaryEntryId !== null && isExtractive(chat.session.getEntry(made.summaryEntryId)))
    chat.say(EXTRACTIVE);
  if (made.selectedText) chat.edit(made.selectedText);
}

/** Entry ids behind the numbers of the last `/branches`, for `/navigate`. */
const listedBranches = new WeakMap<Session, readonly string[]>();

/** Maximum number of branches in the list. */
const BRANCHES = 30;

/** Minimum width in columns of an id in a list, and width of the text next to it. */
const ID_WIDTH = 12;
const WORDS = 60;

/** Lists the branches of a session for people, newest first: number, end, age, label, newest prompt. */
function branchLines({ session, shell: { colours } }: Chat): string {
  const found = session.branches().reverse();
  const ends = found.map(({ leafId }) => leafId);
  listedBranches.set(session, ends);
  if (found.length === 0) return "There is no branch yet; send a message first.";
  const lines = found.slice(0, BRANCHES).map(({ leafId, lastUserText, timestamp }, at) => {
    const label = session.getLabel(leafId);
    const isHere = leafId === session.leafId;
    const facts = [
      String(at + 1).padStart(3),
      isHere ? "*" : " ",
      plainLine(entryName(session.tree, leafId)).padEnd(ID_WIDTH),
      formatAge(Math.max(0, Date.now() - Date.parse(timestamp))).padStart(8),
    ].join(" ");
    const name = label === undefined ? "" : colours.yellow(` [${plainLine(label)}]`);
    const line = `${facts}${name}  ${cutToColumns(plainLine(lastUserText), WORDS)}`;
    return isHere ? colours.bold(line) : line;
  });
  const left = found.length - lines.length;
  if (left > 0) lines.push(`    … ${formatMany(left, "older branch", "older branches")}; /tree draws all`);
  lines.push(colours.dim("    /navigate <number> continues there; * marks the current branch."));
  return lines.join("\n");
}

/** Moves the leaf, and shows the conversation there. A prompt is opened for editing. */
async function goTo(chat: Chat, argument: string): Promise<string | undefined> {
  const { session, signal } = chat;
  const [, reference, summarize, focus] = /^(\S+?)(?:\s+(--summarize)\s*(.*))?$/s.exec(argument) ?? [];
  if (reference === undefined)
    throw new CommandError("usage", "Name an entry: /navigate <id, label or number> [--summarize [focus]].");
  const numbered = /^\d+$/.test(reference) ? listedBranches.get(session)?.[Number(reference) - 1] : undefined;
  const entryId = numbered ?? entryMeant(chat, reference);
  if (entryId === undefined) return;
  if (entryId === session.leafId) return "The conversation already continues from here.";
  if (summarize) chat.drawing.busy("summarizes the branch that you leave", "command");
  const options = {
    entryId,
    ...(summarize ? { summarize: true, ...chat.agent.summaries } : {}),
    ...given({ instructions: focus || undefined }),
  };
  const arrived = await navigate(session, options, { signal }, () => chat.agent.contextTokens);
  chat.say(arrived.sentences.map(plainLine).join("\n"));
  chat.drawing.recall();
  if (arrived.editorText) chat.edit(arrived.editorText);
}

/**
 * Returns the entry that a user names. The chat accepts any beginning of an id, of digits only from 4 characters on.
 * Returns null for the position before the first entry. When several entries match, prints them and returns undefined;
 * throws when none does.
 */
function entryMeant(chat: Chat, reference: string): string | null | undefined {
  const { session } = chat;
  // A number is the number of a branch in `/branches`, so it abbreviates an id only when it is long.
  const { ids, what } = entriesNamed(session, reference, /^\d+$/.test(reference) ? undefined : 1);
  if (ids.length === 1) return ids[0];
  if (ids.length === 0) return entryNamed(session, reference);
  const columns = chat.shell.columns - 1;
  const lines = ids
    .slice(-LISTED)
    .map((id) => cutToColumns(`${INDENT}${describeEntry(session.tree, session.getEntry(id!)!)}`, columns));
  const left = ids.length - lines.length;
  chat.say(
    [
      `${ids.length} entries ${what} ${plainLine(reference)}; name one of them:`,
      ...(left > 0 ? [`  … ${left} older`] : []),
      ...lines,
    ].join("\n"),
  );
}

/** Maximum number of entries that are listed when several match. */
const LISTED = 10;

/** Maximum number of entries that are offered, newest first, and of rows that are searched for them. */
const OFFERED = 8;
const SEARCHED = 5_000;

/** Returns labels without blanks, and the newest entries (without a text: prompts), that begin with the typed text. */
function offeredEntries({ session }: Chat, typed: string): Candidate[] {
  const { tree } = session;
  const labels = [...labelsInForce(tree)].flatMap(([id, { label }]) =>
    /\s/.test(label) || !label.startsWith(typed) ? [] : [{ text: label, note: noteOf(tree, id) }],
  );
  const entries: Candidate[] = [];
  const end = Math.max(0, tree.length - SEARCHED);
  for (let row = tree.length - 1; row >= end && entries.length < OFFERED; row--) {
    const id = tree.idAt(row);
    if (!id.startsWith(typed)) continue;
    if (typed === "" && promptText(tree.entryAt(row)) === null) continue;
    entries.push({ text: id, note: noteOf(tree, id) });
  }
  return [...labels, ...entries];
}

function noteOf(tree: Tree, id: string): string {
  const entry = tree.getEntry(id);
  return entry ? plainLine(previewEntry(entry) ?? entry.type) : "";
}

const beginning = (words: readonly string[], typed: string): Candidate[] =>
  words.filter((word) => word.startsWith(typed)).map((text) => ({ text }));

/**
 * Returns candidates for the word before the cursor: a command, its argument, or a path (absolute, `~/`, or from the
 * session's folder), also after `@`.
 */
export function completeChat(chat: Chat, before: string): Completion {
  const from = before.search(/\S*$/);
  const word = before.slice(from);
  const all = [...CHAT_COMMANDS, ...chat.session.commands];
  if (from === 0 && word.startsWith("/") && !word.slice(1).includes("/")) {
    const named = all.filter(({ name }) => `/${name}`.startsWith(word));
    return {
      from,
      candidates: named.map(({ name, description }) => ({ text: `/${name}`, note: plainLine(description) })),
    };
  }
  const [, name] = /^\/(\S+)\s+\S*$/.exec(before) ?? [];
  const command = CHAT_COMMANDS.find((one) => one.name === name);
  if (command?.candidates) return { from, candidates: command.candidates(chat, word) };
  const at = word.startsWith("@") ? 1 : 0;
  return { from: from + at, candidates: filesNamed(sessionFolder(chat.session.header), word.slice(at)) };
}

/** Returns files and folders whose path begins with the typed text; hidden ones only after a typed dot. */
function filesNamed(folder: string, typed: string): Candidate[] {
  const cut = typed.lastIndexOf("/") + 1;
  const [place, name] = [typed.slice(0, cut), typed.slice(cut)];
  const home = place.startsWith("~/") ? join(homedir(), place.slice(2)) : resolve(folder, place);
  const entries = readableFolder(home);
  return entries
    .filter((one) => one.name.startsWith(name) && (name.startsWith(".") || !one.name.startsWith(".")))
    .map((one) => ({ text: `${place}${plainLine(one.name)}${one.isDirectory() ? "/" : ""}` }))
    .sort((a, b) => a.text.localeCompare(b.text));
}

function readableFolder(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR" || code === "EACCES" || code === "EPERM") return [];
    throw error;
  }
}

async function compact(chat: Chat, focus: string): Promise<string> {
  const failed = (why: string) => {
    const reason = plainLine(providerMessage(why, chat.conversation.address));
    return `❌ Compaction failed, history unchanged${why === "" ? "" : `\n   ${reason}`}`;
  };
  const { agent, drawing, log } = chat;
  drawing.busy("compacts", "command");
  drawing.isCompactingByHand = true;
  log.reason = "";
  try {
    const result = await agent.forceCompact(focus || undefined);
    const { success, previousTokens, currentTokens, freedTokens, deletedFiles } = result;
    if (!success) return failed(log.reason);
    if (freedTokens === 0) return "Nothing to compact";
    const change = `✅ Compacted: ${formatChange(previousTokens, currentTokens)} tokens`;
    const freed = `   Freed ${formatCount(freedTokens)} tokens, removed ${deletedFiles.length} offloaded files`;
    return `${change}\n${freed}`;
  } catch (error) {
    const { code, message } = error as { code?: unknown; message?: unknown };
    if (code === "aborted") throw error;
    return failed(String(message));
  } finally {
    drawing.isCompactingByHand = false;
  }
}

async function chooseModel(chat: Chat, modelId: string): Promise<string> {
  if (modelId) await choose(chat, { model: modelId });
  const name = `The model is ${chat.agent.model.modelId}`;
  const others = Object.keys(anthropicModels).join(", ");
  return modelId ? name : `${name}\nKnown ones: ${others}`;
}

async function choosePolicy(chat: Chat, name: string): Promise<string> {
  const names = POLICY_NAMES.join(", ");
  if (!name) return `The policy is ${chat.session.policy.name}\nThere are: ${names}`;
  const policy = POLICY_NAMES.find((one) => one === name);
  if (!policy) throw new CommandError("usage", `There is no policy ${name}; choose one of ${names}.`);
  await choose(chat, { policy });
  return `The policy is ${chat.session.policy.name} until the end of this chat`;
}

/** Opens the session again with another choice. Throws first, if a key or the settings exclude the choice. */
async function choose(chat: Chat, choice: ChatChoices): Promise<void> {
  const choices = { ...chat.conversation.choices, ...choice };
  await checkChoices(chat.shell, choices, chat.session);
  await chat.move(chat.session.file, choices);
}

function newest(lines: readonly string[]): string {
  const left = lines.length - SHOWN;
  return (left > 0 ? [`… ${left} lines above`, ...lines.slice(-SHOWN)] : lines).join("\n");
}

const KEYS = [
  "Esc or Ctrl-C aborts the answer; messages that you send during an answer wait in a queue.",
  "Alt-Enter, Shift-Enter (if the terminal reports it), or \\ and Enter begin a new line.",
  "Tab completes commands, files and ids. ↑ and ↓ bring back earlier messages. Ctrl-D leaves.",
];

/** Width in columns of the names in the help. */
const NAME_WIDTH = 17;
const INDENT = "  ";

/** Text of the help: `/compact         Compress conversation history`, wrapped in a narrow terminal. */
function helpText({ session: { commands }, shell }: Chat): string {
  const own = commands.filter(({ name }) => !CHAT_COMMANDS.some((one) => one.name === name));
  const room = Math.max(1, shell.columns - INDENT.length - NAME_WIDTH);
  const lines = [...CHAT_COMMANDS, ...own].flatMap(({ name, description }) =>
    wrapWords(plainLine(description), room).map(
      (part, at) => `${INDENT}${(at === 0 ? `/${name}` : "").padEnd(NAME_WIDTH)}${part}`,
    ),
  );
  return [...lines, ...KEYS].join("\n");
}

/**
 * Runs a line that begins with `/`: a command of the chat, else of an extension. Prints a sentence for an unknown
 * command, and for one that cannot run during an answer.
 */
export async function runChatCommand(chat: Chat, line: string): Promise<void> {
  const [, name = "", argument = ""] = /^\/(\S*)\s*(.*)$/s.exec(line) ?? [];
  const command = CHAT_COMMANDS.find((one) => one.name === name);
  const isExtensions = !command && chat.session.commands.some((one) => one.name === name);
  if (!command && !isExtensions) {
    const names = CHAT_COMMANDS.map((one) => one.name);
    const near = nearest(name, names);
    const meant = near === undefined ? "" : ` Did you mean /${near}?`;
    return chat.say(`There is no command /${plainLine(name)}; /help lists them.${meant}`);
  }
  if (command && !command.anytime) {
    if (chat.agent.isRunning) return chat.say(ANSWERING);
    chat.runAlone();
  }
  if (command?.readsOthers) await chat.session.refresh();
  const waiting = chat.agent.queued;
  try {
    const said = command
      ? await command.run(chat, argument.trim())
      : await chat.session.runCommand(name, argument.trim(), chat.signal);
    if (said) chat.say(said);
  } catch (error) {
    if (!command?.aborted || (error as { code?: unknown }).code !== "aborted") throw error;
    chat.say(command.aborted);
  } finally {
    restoreWaiting(chat, waiting);
  }
}

/** Puts waiting messages back into the input when a command left their path or session, because they would not be sent. */
function restoreWaiting(chat: Chat, waiting: Agent["queued"]): void {
  const { agent, session } = chat;
  const ids = new Set(agent.queued.map(({ entryId }) => entryId));
  for (const { entryId, text } of waiting)
    if (!ids.has(entryId) && !session.getEntry(entryId)) chat.restore(text);
}
