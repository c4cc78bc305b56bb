// Measures of a summary, without a model: how much of the replaced messages, and of the needs of the next calls, is in
// it.
import { isRecord } from "@espalier/session-tree";
import { replaceElements } from "@espalier/summarizer";
import {
  isCodeName,
  meanOf,
  namesIn,
  pathEnd,
  type ReadCall,
  type ReadMessage,
  RUN_TOGETHER,
  type Transcript,
  wordsIn,
} from "./transcript.ts";

/** A point of a session at which the older messages were summarized. */
export interface Cut {
  transcript: Transcript;
  /** Number of the point in the session, from 1. */
  point: number;
  /** Index of the first message after the cut. */
  now: number;
  /** Messages that the summary replaces, oldest first. */
  summarized: readonly ReadMessage[];
  /** Messages that the model still reads. */
  kept: readonly ReadMessage[];
  /** Messages after the cut. */
  later: readonly ReadMessage[];
}

/** Measures of one summary; null when the session has nothing to measure. */
export type Measures = ReturnType<Examination["measure"]>;

export const MEASURES = ["tokens", "reach", "user", "found", "state", "dump", "prec"] as const;

/** Questions about one cut, for any number of summaries. */
export class Examination {
  readonly #needs: Need[];
  readonly #requests: Anchors[];
  readonly #findings: Anchors[];
  readonly #facts: Fact[];
  readonly #later: ReadonlySet<string>;
  /** True if enough summarized names are written again later. */
  readonly #again: boolean;

  constructor(cut: Cut) {
    const rarity = rarityIn(cut.summarized);
    this.#needs = needsOf(cut);
    this.#requests = requestsIn(cut.summarized).flatMap((text) => anchorsOf(text, rarity));
    this.#findings = findingsIn(cut.summarized).flatMap((text) => anchorsOf(text, rarity));
    this.#facts = stateOf(cut);
    this.#later = namesOf(cut.later.filter(({ role }) => role !== "toolResult"));
    const again = [...namesOf(cut.summarized)].filter((name) => this.#later.has(name));
    this.#again = again.length >= FEWEST_NAMES;
  }

  /** Measures a text as a summary of this cut. A measure is null when the session has nothing to measure. */
  measure(text: string) {
    const words = new Set(wordsIn(text));
    const names = [...namesIn(withoutTags(text))];
    return {
      /** Size, in characters / 4. */
      tokens: Math.ceil(text.length / 4),
      /**
       * Share of needed names that are in the summary, or in a file that the summary names. A name is needed when the next
       * calls use it and only the summarized messages had it.
       */
      reach: reachOf(text, words, this.#needs),
      /** Share of the user's requests in the summary. */
      user: carriedOf(text, words, this.#requests),
      /** Share of the agent's findings in the summary. */
      found: carriedOf(text, words, this.#findings),
      /** Share of the state in the summary: files changed last, commands run last, failures, ids, open tasks. */
      state: meanOf(this.#facts.map((test) => test(text, words))),
      /** Share of the summary's characters in bare lists of names. */
      dump: dumpOf(text),
      /** Share of the summary's names that are written again later; null if too few summarized names are. */
      prec: this.#again ? meanOf(names.map((name) => (this.#later.has(name) ? 1 : 0))) : null,
    };
  }
}

/** Returns the text without the tags of blocks, which are not names of the session. */
export const withoutTags = (text: string): string => text.replace(/<\/?[a-z][a-z-]*>/g, " ");

const namesOf = (messages: readonly ReadMessage[]): Set<string> =>
  new Set(messages.flatMap(({ names }) => [...names]));

/** A name that a later call uses and that only the summarized messages have. */
interface Need {
  /** The name, or a file from which it can be read again. */
  fact: Fact;
  weight: number;
}

/** Number of calls after the cut that are examined. */
const NEXT_CALLS = 60;

/** Returns the messages up to the last examined call. */
export function nextOf({ later }: Cut): readonly ReadMessage[] {
  let calls = 0;
  const end = later.findIndex((message) => {
    calls += message.calls.length;
    return calls >= NEXT_CALLS;
  });
  return end < 0 ? later : later.slice(0, end + 1);
}

/** Number of calls after which the weight of a need is halved. */
const HALF_WEIGHT = 20;

/** Minimum number of summarized names that are used again later. With fewer, one name decides the figure. */
const FEWEST_NAMES = 3;

function needsOf(cut: Cut): Need[] {
  const before = namesOf(cut.summarized);
  const inSight = namesOf(cut.kept);
  const needed = new Map<string, number>();
  let number = 0;
  for (const message of nextOf(cut)) {
    for (const call of message.calls) {
      number++;
      for (const name of namesIn(call.text)) {
        if (before.has(name) && !inSight.has(name)) needed.set(name, number);
        inSight.add(name);
      }
    }
    const told = message.role === "assistant" ? namesIn(message.prose) : message.names;
    for (const name of told) inSight.add(name);
  }
  if (needed.size === 0) return [];
  const homes = filesOfNames(cut, needed);
  return [...needed].map(([name, at]) => {
    const files = homes.get(name) ?? [];
    const inFiles = files.map((file): Piece => [pathEnd(file, 1), 0.8]).filter(([file]) => file.length > 4);
    // A name that is in no file cannot be read again.
    const weight = 2 ** (-(at - 1) / HALF_WEIGHT) * (files.length > 0 ? 1 : 2);
    return { weight, fact: firstOf(...piecesOf(name), ...inFiles) };
  });
}

/** Returns the pieces of a name: all of it, and with less of a share the ends of a path. */
function piecesOf(name: string): Piece[] {
  const isPath = name.includes("/") && !/^https?:/.test(name);
  const parts = isPath ? name.split("/").filter(Boolean).length : 0;
  if (parts < 2) return [[name, 1]];
  const end: Piece[] = parts === 2 ? [] : [[pathEnd(name, Math.min(parts - 1, 3)), 0.9]];
  return [[name, 1], ...end, [pathEnd(name, 2), 0.7]];
}

/** Returns the files of the calls that read or edited a needed name, by name. */
function filesOfNames(
  { transcript, now, summarized }: Cut,
  needed: ReadonlyMap<string, number>,
): Map<string, string[]> {
  const homes = new Map<string, string[]>();
  for (const call of summarized.flatMap(({ calls }) => calls)) {
    const files = filesOf(call);
    if (files.length === 0) continue;
    const result = transcript.resultOf(call, now);
    const shown = [namesIn(call.text), ...(result ? [result.names] : [])];
    for (const name of needed.keys())
      if (isCodeName(name) && shown.some((names) => names.has(name)))
        homes.set(name, [...(homes.get(name) ?? []), ...files]);
  }
  return homes;
}

function filesOf(call: ReadCall): string[] {
  const path = pathOf(call);
  if (path !== undefined) return [path];
  return ((commandOf(call) ?? call.text).slice(0, 2_000).match(/[\w./~@-]{1,200}\.\w{1,5}\b/g) ?? []).slice(
    0,
    4,
  );
}

function pathOf({ arguments: given }: ReadCall): string | undefined {
  const path = given["file_path"] ?? given["path"] ?? given["filePath"] ?? given["notebook_path"];
  return typeof path === "string" && path !== "" ? path : undefined;
}

/** Returns the shell command of a call, even inside a program of calls. */
function commandOf({ arguments: given }: ReadCall): string | undefined {
  const command = given["command"] ?? given["cmd"];
  if (typeof command === "string") return command;
  if (Array.isArray(command)) return String(command.at(-1));
  const program = given["input"];
  const inside =
    typeof program === "string"
      ? /exec_command\(\{\s*"?cmd"?\s*:\s*"((?:[^"\\]|\\.)*)"/.exec(program)?.[1]
      : undefined;
  return inside?.replace(/\\(n|.)/g, (_, escaped: string) => (escaped === "n" ? "\n" : escaped));
}

function reachOf(text: string, words: ReadonlySet<string>, needs: readonly Need[]): number | null {
  if (needs.length < FEWEST_NAMES) return null;
  let [got, all] = [0, 0];
  for (const { weight, fact } of needs) {
    all += weight;
    got += weight * fact(text, words);
  }
  return got / all;
}

/** The rarest words and names of a request or finding. */
type Anchors = readonly string[];

const MOST_ANCHORS = 8;
const FEWEST_ANCHORS = 3;

/** Minimum rarity: that of a word in every second message. */
const RARE = 0.7;

/**
 * Returns the rarity of a word among messages: the logarithm of the number of all messages divided by the number of
 * messages with the word.
 */
function rarityIn(messages: readonly ReadMessage[]): (word: string) => number {
  const counts = new Map<string, number>();
  for (const { words } of messages) for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  return (word) => Math.log((messages.length + 1) / (1 + (counts.get(word) ?? 0)));
}

function anchorsOf(text: string, rarity: (word: string) => number): Anchors[] {
  const numbers = (text.match(/#?\b\d[\d.,:]{0,20}\b/g) ?? []).filter(({ length }) => length > 1);
  const anchors = [...new Set([...namesIn(text), ...wordsIn(text), ...numbers])]
    .filter((word) => rarity(word) > RARE)
    .sort((a, b) => rarity(b) - rarity(a))
    .slice(0, MOST_ANCHORS);
  return anchors.length < FEWEST_ANCHORS ? [] : [anchors];
}

/** Returns the share of requests or findings of which a text has at least half of the anchors; null without any. */
function carriedOf(text: string, words: ReadonlySet<string>, said: readonly Anchors[]): number | null {
  const isTold = (anchor: string) => words.has(anchor) || (anchor.length > 3 && text.includes(anchor));
  return meanOf(said.map((anchors) => (anchors.filter(isTold).length * 2 >= anchors.length ? 1 : 0)));
}

const LONGEST_REQUEST = 400;
const SHORTEST_REQUEST = 12;

/** Lines that agents write in the role of the user. */
const NOT_SAID =
  /^\[Request interrupted|^This session is being continued|^Caveat:|^Base directory for this skill/;

/** Returns the text without code and without the elements that agents add to a user's message. */
const withoutBlocks = (text: string): string =>
  replaceElements(text, /<([a-z-]{1,60})(?:\s[^>]{0,300})?>/g, () => "")
    .replace(/```[\s\S]*?```/g, "")
    .trim();

const requestsIn = (history: readonly ReadMessage[]): string[] =>
  history
    .filter(({ role }) => role === "user")
    .map(({ prose }) => withoutBlocks(prose.slice(0, LONGEST_READ)).slice(0, LONGEST_REQUEST))
    .filter((text) => text.length > SHORTEST_REQUEST && !NOT_SAID.test(text));

/** Maximum number of characters of a user's message that are searched for a request. */
const LONGEST_READ = 100_000;

/** Words of a sentence that states a reason, a cause, a decision or a result. */
const CONCLUDES =
  /because|since|so that|instead|rather|root|cause|means|already|no longer|the (?:issue|problem|fix|reason)|→|->|decid|chose|recommend|overkill|risky|fixed|added|removed|replaced|works|pass|因为|所以|原因|决定|改为|通过|失败|때문|원인|결정|대신|수정|추가|통과|실패/i;

/** Maximum number of counted sentences of one closing text. */
const MOST_FINDINGS = 4;

/** Returns sentences at the end of a turn in which the agent states a reason or a result. */
function findingsIn(history: readonly ReadMessage[]): string[] {
  const closings = [""];
  for (const { role, prose } of history)
    if (role === "user") closings.push("");
    else if (role === "assistant" && prose.trim().length > (RUN_TOGETHER.test(prose) ? 20 : 60))
      closings[closings.length - 1] = prose;
  return closings.flatMap((closing) =>
    closing
      .replace(/```[\s\S]*?```/g, "")
      .split(/(?<=[.!?:])\s+|(?<=[。！？])|\n+/)
      // From about a line to about a paragraph; characters of scripts without spaces count twice.
      .filter((sentence) => sentence.length * (RUN_TOGETHER.test(sentence) ? 2 : 1) > 40)
      .filter((sentence) => sentence.length < 400 && CONCLUDES.test(sentence))
      .slice(0, MOST_FINDINGS),
  );
}

/** A fact about the state at the cut: returns the share of the fact that a text has. */
type Fact = (text: string, words: ReadonlySet<string>) => number;

/** Commands that change no file. */
const LOOKS =
  /^(?:cd [^&;]+(?:&&|;)\s*)?(?:cat|ls|head|tail|grep|rg|find|sed -n|wc|git (?:status|diff|log|show)|echo|pwd|which|sleep)\b/;
const EDITS = /edit|write|create|replace|patch/i;
const TROUBLE = /error|fail|not found|denied|panic|exception/i;
const ID =
  /(?<![\w#])#\d{1,6}\b|\b(?=[0-9a-f]{0,40}\d)(?=[0-9a-f]{0,40}[a-f])[0-9a-f]{7,40}\b|\b\d{1,3}(?:\.\d{1,3}){3}\b|\b[A-Z]{2,5}-\d{2,5}\b|https?:\/\/[^\s)`"'<>\]]+/g;

const LAST_EDITS = 6;
const LAST_RUNS = 4;
const LAST_FAILURES = 2;
const LAST_IDS = 4;
const OPEN_TASKS = 4;

function stateOf({ transcript, now, summarized }: Cut): Fact[] {
  const edits: string[] = [];
  const runs = new Map<string, { failed: boolean; output: string }>();
  let tasks: unknown[] = [];
  for (const call of summarized.flatMap(({ calls }) => calls)) {
    const result = transcript.resultOf(call, now);
    const failed =
      result !== undefined &&
      (result.isError || /(?:exit code|exited with code):? [1-9]/i.test(result.text.slice(0, 400)));
    const command = commandOf(call);
    const patched = [...call.text.matchAll(/\*\*\* (?:Update|Add) File: ((?:(?!\\n)[^\n"`])+)/g)];
    const path = pathOf(call);
    if (patched.length > 0) edits.push(...patched.map(([, file]) => file!.trim()));
    else if (path !== undefined && EDITS.test(call.name)) {
      if (!failed) edits.push(path);
    } else if (command !== undefined && !LOOKS.test(command.trim())) {
      const key = commandKey(command);
      runs.delete(key);
      runs.set(key, { failed, output: result?.text ?? "" });
    }
    const listed = call.arguments["todos"] ?? call.arguments["plan"] ?? tasksIn(call);
    if (Array.isArray(listed)) tasks = listed;
  }
  const commands = [...runs.keys()].filter(({ length }) => length > 5);
  const said = summarized
    .filter(({ role }) => role === "assistant")
    .flatMap(({ prose }) => prose.match(ID) ?? []);
  const failures = [...runs.values()].filter((run) => run.failed).slice(-LAST_FAILURES);
  return [
    ...newest(edits, LAST_EDITS).map((path) =>
      firstOf([path, 1], [pathEnd(path, 2), 0.9], [pathEnd(path, 1), 0.8]),
    ),
    ...newest(commands, LAST_RUNS).map((key) => firstOf([key, 1], [beginningOf(key), 0.7])),
    ...failures.flatMap(({ output }) => {
      const lines = output.split("\n");
      return wordsFact((lines.find((line) => TROUBLE.test(line)) ?? lines[0]!).slice(0, 400), 3);
    }),
    ...newest(said, LAST_IDS).map((id) => firstOf([id, 1])),
    ...openTasks(tasks)
      .slice(0, OPEN_TASKS)
      .flatMap((task) => wordsFact(task, 2)),
  ];
}

const newest = (values: readonly string[], count: number): string[] =>
  [...new Set(values.toReversed())].slice(0, count);

/** Returns a command without the commands before it and without the processing of its output. */
const commandKey = (command: string): string =>
  command
    .split("\n", 1)[0]!
    .replace(/^(?:cd\s+\S+\s*(?:&&|;)\s*)+/, "")
    .replace(/\s*(?:2>&1|\|.*)$/g, "")
    .trim()
    .slice(0, 60);

/** Returns the first words of a command, without short ones. */
const beginningOf = (key: string): string =>
  key
    .split(/\s+/)
    .filter(({ length }) => length > 2)
    .slice(0, 3)
    .join(" ");

/** A piece of a fact, and the share of the fact that a text with this piece has. */
type Piece = readonly [text: string, share: number];

/** Returns a fact of which a text has the share of the first piece in it. */
const firstOf =
  (...pieces: readonly Piece[]): Fact =>
  (text) =>
    pieces.find(([piece]) => text.includes(piece))?.[1] ?? 0;

/** Returns a fact that a text has when it has at least 60 % of the words; none when there are fewer words than `fewest`. */
function wordsFact(told: string, fewest: number): Fact[] {
  const needed = wordsIn(told).slice(0, 12);
  if (needed.length < fewest) return [];
  return [(_, words) => (needed.filter((word) => words.has(word)).length >= needed.length * 0.6 ? 1 : 0)];
}

/** Returns the tasks that a program of calls lists; undefined when it lists none. */
function tasksIn({ name, text }: ReadCall): unknown[] | undefined {
  if (name !== "exec" || !text.includes("update_plan")) return undefined;
  const listed = text.matchAll(/"step":"(?<step>(?:[^"\\]|\\.)*)","status":"(?<status>\w+)"/g);
  return Array.from(listed, ({ groups }) => groups);
}

function openTasks(tasks: readonly unknown[]): string[] {
  return tasks.flatMap((task) => {
    if (!isRecord(task) || /^(?:completed|done)$/.test(String(task["status"] ?? ""))) return [];
    const text = task["content"] ?? task["step"] ?? task["text"];
    return typeof text === "string" ? [text] : [];
  });
}

/** Returns whether a word is prose, in any script. */
const isPlain = (word: string): boolean =>
  !word.includes("`") &&
  (/\p{Lo}/u.test(word) ||
    /^["'(*-]*[a-z]{2,}['’]?[a-z]*[.,:;!?)"'*]*$/.test(word) ||
    /^[A-Z][a-z]{1,8}[.,:]?$/.test(word));

/** Minimum number of consecutive words, none of them prose, that count as a bare list of names. */
const BARE_LIST = 8;

function dumpOf(text: string): number {
  // A word of prose ends a list, as the end of a line does.
  const lists = text.replace(/\S+/g, (word) => (isPlain(word) ? "\n" : word)).split("\n");
  const bare = lists.map((list) => list.trim()).filter((list) => list.split(/\s+/).length >= BARE_LIST);
  return bare.reduce((sum, { length }) => sum + length, 0) / Math.max(1, text.length);
}
