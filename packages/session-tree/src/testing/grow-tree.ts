import { EspalierError, formatLine } from "@espalier/jsonl-stream";
import { FORMAT_VERSION, type SessionHeader } from "../entry/entry.ts";
import { type Entry, kindOf, leaf } from "../entry/kinds.ts";
import { type ContextMessage, toolCalls } from "../entry/message.ts";
import { memoryStore } from "../store/memory-store.ts";
import { SessionTree } from "../store/session-tree.ts";
import type { SessionStore } from "../store/store.ts";

/** Options of a grown session: its store and its header. */
export interface GrowOptions {
  /** Store of the session; default: a new {@link memoryStore}. */
  store?: SessionStore;
  /** Fields of the header, besides its type and version. */
  header?: Partial<SessionHeader>;
}

/** A grown session, with its store. */
export interface GrownTree {
  session: SessionTree;
  store: SessionStore;
  /** Reference that opens the session again. */
  ref: string;
}

/** Time of the first entry of a grown session. Each later entry is one second later. */
const PLANTED = Date.UTC(2026, 0, 1);

/**
 * Returns a session that a text describes: `growTree("u1 > a1 > u2; a1 > u3*")` is a question and its answer, followed
 * by two questions, with the leaf at `u3`. Names become ids, and their first letter is the kind (see `grownKinds`).
 * Lines are in the order of the text, and the same text gives the same bytes. Without a `*`, the last line determines
 * the leaf. Entries are not checked, so that tests can build broken trees.
 *
 * @throws EspalierError `invalid-entry` when the text cannot be read
 */
export async function growTree(
  text: string,
  { store = memoryStore(), header }: GrowOptions = {},
): Promise<GrownTree> {
  const full: SessionHeader = {
    type: "session",
    version: FORMAT_VERSION,
    id: "grown",
    timestamp: new Date(PLANTED).toISOString(),
    cwd: "/garden",
    ...header,
  };
  const log = await store.create(
    full,
    growEntries(text).map((entry) => formatLine(entry)),
  );
  return { session: await SessionTree.open(log), store, ref: log.ref };
}

/** Returns the entries of {@link growTree} in file order, without a session. */
export function growEntries(text: string): Entry[] {
  const written = readTreeLanguage(text);
  const grown = new Map<string, Entry>();
  let leafId: string | null = null;
  let time = PLANTED;
  for (const sprout of written.sprouts) {
    const { name, parent } = sprout;
    const grow = grownKinds[name[0]!];
    if (!grow) {
      const letters = Object.keys(grownKinds).join(" ");
      throw new EspalierError(
        "invalid-entry",
        `No kind of entry begins with ${name[0]} (${name}); there are ${letters}.`,
      );
    }
    time += 1_000;
    const { type, ...fields } = grow(sprout, { leafId, time, openCall: () => openCall(parent, grown) });
    grown.set(name, {
      type,
      id: name,
      parentId: parent,
      timestamp: new Date(time).toISOString(),
      ...fields,
    } as Entry);
    leafId = movingAncestor(name, grown);
  }
  const entries = [...grown.values()];
  if (written.leaf === undefined || written.leaf === leafId) return entries;
  const at = new Date(time + 1_000).toISOString();
  const targetId = written.leaf;
  return [
    ...entries,
    { type: leaf.type, id: `leaf-${targetId}`, parentId: targetId, timestamp: at, targetId } as Entry,
  ];
}

function movingAncestor(name: string, grown: ReadonlyMap<string, Entry>): string | null {
  for (let entry = grown.get(name); entry; entry = grown.get(entry.parentId ?? ""))
    if (kindOf(entry).movesLeaf) return entry.id;
  return null;
}

/** Returns the first call on the path above that has no result on the path. */
function openCall(parent: string | null, grown: ReadonlyMap<string, Entry>) {
  const answered = new Set<string>();
  for (let entry = grown.get(parent ?? ""); entry; entry = grown.get(entry.parentId ?? "")) {
    const { message } = entry as { message?: ContextMessage };
    if (message?.role === "toolResult") answered.add(message.toolCallId);
    const open = message && toolCalls(message).find(({ id }) => !answered.has(id));
    if (open) return open;
  }
  return undefined;
}

/** One entry in the text of a tree. */
interface Sprout {
  /** Id of the entry. Its first letter is the kind. */
  name: string;
  /** Contents of the parentheses: words, and texts in quotes. */
  words: string[];
  /** Name before it in its chain; null for a root. */
  parent: string | null;
}

/** A tree in the form of its text. */
interface WrittenTree {
  /** Entries, in the order in which they are first named. */
  sprouts: Sprout[];
  /** Name with a `*`. */
  leaf: string | undefined;
}

const TOKEN = /[^\S\n]+|(>)|([;\n])|([A-Za-z][\w-]*)|(\()|(\*)/y;
const WORD = /\s*(?:"((?:[^"\\]|\\.)*)"|([^\s()"]+))/y;

/**
 * Reads chains of names, separated by `;` or a new line: `u1 > a1 > u2; a1 > u3*`. The first name of a chain can be an
 * existing entry, and the chain continues from it. Every other name is a new entry under the one before it. Words in
 * parentheses set an entry's content: `k1(u2 "text")`. A `*` marks the leaf.
 *
 * @throws EspalierError `invalid-entry`, naming the position that cannot be read
 */
function readTreeLanguage(text: string): WrittenTree {
  const sprouts = new Map<string, Sprout>();
  let leaf: string | undefined;
  let parent: string | null = null;
  let last: Sprout | undefined;
  let joined = false;
  for (let at = 0; at < text.length; ) {
    TOKEN.lastIndex = at;
    const token = TOKEN.exec(text);
    if (!token) throw unreadable(text, at, "a name, `>`, `;`, `*` or words in parentheses should stand here");
    const [whole, arrow, end, name, words, star] = token;
    if (arrow !== undefined) joined = true;
    if (end !== undefined) {
      parent = null;
      joined = false;
    }
    if (name !== undefined) {
      if (parent !== null && !joined) throw unreadable(text, at, "a `>` or `;` is missing before it");
      if (parent !== null && sprouts.has(name)) throw unreadable(text, at, `${name} has its place already`);
      last = sprouts.get(name) ?? { name, words: [], parent };
      sprouts.set(name, last);
      parent = name;
      joined = false;
    }
    at += whole.length;
    if (words !== undefined) at = readWords(text, at, last?.words ?? []);
    if (star !== undefined) leaf = last?.name;
  }
  return { sprouts: [...sprouts.values()], leaf };
}

/** Reads words up to the closing parenthesis; returns the position after it. */
function readWords(text: string, from: number, words: string[]): number {
  let at = from;
  for (;;) {
    WORD.lastIndex = at;
    const word = WORD.exec(text);
    if (!word) break;
    words.push(word[2] ?? (JSON.parse(`"${word[1]!.replaceAll("\n", "\\n")}"`) as string));
    at += word[0].length;
  }
  const end = /\s*\)/y;
  end.lastIndex = at;
  const closing = end.exec(text);
  if (!closing) throw unreadable(text, at, "the words have no closing parenthesis");
  return at + closing[0].length;
}

function unreadable(text: string, at: number, problem: string): EspalierError {
  const rest = text.slice(at, at + 20);
  return new EspalierError(
    "invalid-entry",
    `The tree cannot be read at ${JSON.stringify(rest)}: ${problem}.`,
  );
}

/** Facts about the entries before an entry. */
interface TreeState {
  /** Leaf before the entry. */
  leafId: string | null;
  /** Returns the first call above the entry that has no result yet. */
  openCall(): { id: string; name: string } | undefined;
  /** Epoch milliseconds. */
  time: number;
}

type Grow = (sprout: Sprout, around: TreeState) => { type: string; [field: string]: unknown };

const USAGE = { input: 10, output: 5, cacheRead: 0, cacheWrite: 0, totalTokens: 15, cost: { total: 0.001 } };
const MODEL = { api: "test", provider: "anthropic", model: "claude-test", usage: USAGE };

const said = (message: Record<string, unknown>, { time }: TreeState) => ({
  type: "message",
  message: { ...message, timestamp: time },
});

const answer = (content: unknown[], stopReason: string, around: TreeState) =>
  said({ role: "assistant", content, ...MODEL, stopReason }, around);
const text = ({ name, words }: Sprout, at = 0): string => words[at] ?? name;

/** Kinds of entries by the first letter of a name. Words in parentheses set the content. */
const grownKinds: Readonly<Record<string, Grow>> = {
  /** `u1("text")`: a user message. */
  u: (sprout, around) => said({ role: "user", content: text(sprout) }, around),
  /** `a1("text")`: an answer. */
  a: (sprout, around) => answer([{ type: "text", text: text(sprout) }], "stop", around),
  /** `c1(2)`: an answer with this number of tool calls (default 1). */
  c: ({ name, words: [count = "1"] }, around) => {
    const calls = Array.from({ length: Number(count) }, (_, at) => ({
      type: "toolCall",
      id: `${name}-${at + 1}`,
      name: "read",
      arguments: { path: `${name}.txt` },
    }));
    return answer(calls, "toolUse", around);
  },
  /**
   * `t1("text")`: the result of the first call above that has none. If there is no such call, of a call that does not
   * exist.
   */
  t: (sprout, around) => {
    const { id, name } = around.openCall() ?? { id: `${sprout.name}-orphan`, name: "read" };
    const content = [{ type: "text", text: text(sprout) }];
    return said({ role: "toolResult", toolCallId: id, toolName: name, content, isError: false }, around);
  },
  /** `f1(aborted "text")`: an answer that failed (`error`, the default) or was aborted. */
  f: (sprout, around) =>
    answer([{ type: "text", text: text(sprout, 1) }], sprout.words[0] ?? "error", around),
  /** `b1("command")`: a shell run of the user. */
  b: (sprout, around) =>
    said(
      {
        role: "bashExecution",
        command: text(sprout),
        output: "done",
        exitCode: 0,
        cancelled: false,
        truncated: false,
      },
      around,
    ),
  /** `y1("text")`: a system message. */
  y: (sprout, around) => said({ role: "system", content: text(sprout) }, around),
  /** `k1(u2 "summary")`: a compaction with its first kept entry. Without one, it keeps nothing. */
  k: ({ name, words: [firstKept = name, summary = `Summary ${name}`] }) => ({
    type: "compaction",
    summary,
    firstKeptEntryId: firstKept,
    tokensBefore: 1_000,
  }),
  /** `s1(a5 "summary")`: the summary of the branch that ends in an entry; default: the leaf before it. */
  s: ({ name, words: [fromId, summary = `Summary ${name}`] }, { leafId }) => ({
    type: "branch_summary",
    summary,
    fromId: fromId ?? leafId ?? "root",
  }),
  /** `e1(u2 "text")`: an edit. Without a text, it removes the entry. */
  e: ({ words: [targetId, content] }) => ({
    type: "context_edit",
    targetId,
    replacement: content === undefined ? null : { content },
  }),
  /** `l1(u2 "label")`: a label. Without a text, it clears the label. */
  l: ({ words: [targetId, label] }) => ({
    type: "label",
    targetId,
    ...(label === undefined ? {} : { label }),
  }),
  /** `n1("name")`: the session's name. */
  n: (sprout) => ({ type: "session_info", name: text(sprout) }),
  /** `m1(provider model)`: a change of the model. */
  m: ({ words: [provider = "anthropic", modelId = "claude-test"] }) => ({
    type: "model_change",
    provider,
    modelId,
  }),
  /** `h1(high)`: a change of the thinking level. */
  h: ({ words: [thinkingLevel = "high"] }) => ({ type: "thinking_level_change", thinkingLevel }),
  /** `x1(type "data")`: state of an extension. */
  x: ({ name, words: [customType = "test", data = name] }) => ({ type: "custom", customType, data }),
  /** `i1("text")`: a message of an extension. */
  i: (sprout) => ({ type: "custom_message", customType: "test", content: text(sprout), display: true }),
  /** `g1`: usage billed for a call without a message. */
  g: () => ({ type: "usage", kind: "test", provider: "anthropic", model: "claude-test", usage: USAGE }),
  /** `z1`: an entry of an unknown type. */
  z: ({ name }) => ({ type: "unheard_of", says: name }),
};
