import { appendFileSync, copyFileSync, existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import { type Agent, type AgentEvent, createAgent } from "@espalier/agent";
import { openSession } from "@espalier/engine";
import { anthropic } from "@espalier/engine/anthropic";
import { anthropicFormat, buildRequest, type Entry, isMessage, toolCalls } from "@espalier/session-tree";
import { checkAnthropicRequest } from "@espalier/session-tree/testing";
import {
  type MessagesServer,
  type ReceivedRequest,
  type Reply,
  startMessagesServer,
  textReply,
  tooLongReply,
} from "@espalier/summarizer/testing";
import { Child, type Findings, type Harness, type HarnessOptions, SeededRandom, say } from "../harness.ts";
import { type StoreName, storeNamed, writeSession } from "../stores.ts";

/** Trials at the same time. */
const LANES = 2;

/** A line of a conversing process for each of its moments, before the moment has consequences. */
interface Told {
  type: Moment["type"] | "day";
  /** Of an entry. */
  id?: string;
  /** The day of the next prompt; such a line is no moment. */
  day?: number;
}

/** A turn of the undisturbed conversation, by its moments in order. */
interface Turn {
  day: number;
  moments: Told["type"][];
}

/**
 * `kill -9` at each moment of an agent's conversation of sixty turns with tools, which is compacted by its size and by
 * an overflow: another process continues, nothing is lost, nothing is said, answered or run twice, and every request is
 * valid. The killed process begins with the file as it was before that turn; some conversations continue to the end.
 * Then one conversation has its processes killed over and over.
 */
export const conversation: Harness = {
  async run(options, findings) {
    const whole = join(options.folder, "whole.jsonl");
    const { turns, before } = await converseWhole(options, findings, whole);
    const kills = killsIn(turns, options).map((kill) => ({ ...kill, nth: before + kill.moment }));
    const lane = async () => {
      for (let next = kills.pop(); next; next = kills.pop()) await killOnce(options, findings, whole, next);
    };
    await Promise.all(Array.from({ length: LANES }, lane));
    if (options.count === undefined)
      for (const kind of new Set(turns.flatMap(({ moments }) => moments)))
        findings.expect(`killed at ${kind}` in findings.figures, `No process was killed at ${kind}.`);
    await killOverAndOver(options, findings);
  },

  /**
   * `<store> <home> <file> <url> <until> <moment>`: has the conversation until that day, and kills itself at that moment
   * of its life (from 1; 0: never). One that is never killed copies the file, and the tool's, to `<name>.<day>` before
   * each day.
   */
  async child([store, home = "", file = "", url = "", until, moment]) {
    const last = Number(moment);
    const tell = (told: Told) => say(told);
    let moments = 0;
    const agent = await openGardener({ store: store as StoreName, home, file, url }, (event) => {
      tell({ type: event.type, ...(event.type === "entry" ? { id: event.entry.id } : {}) });
      moments += 1;
      if (moments === last) process.kill(process.pid, "SIGKILL");
    });
    await converse(agent, Number(until), (day) => {
      if (last === 0)
        for (const one of [file, looksOf(file)]) if (existsSync(one)) copyFileSync(one, `${one}.${day}`);
      tell({ type: "day", day });
    });
    await agent.session.close();
  },
};

/** Has the conversation without a kill; keeps a copy of the file before each turn. */
async function converseWhole(options: HarnessOptions, findings: Findings, file: string) {
  writeSession(file);
  const turns: Turn[] = [];
  /** Moments of any process before its first turn, in which it finds nothing to continue. */
  let before = 0;
  await inGarden(options, file, async (conversed) => {
    const { told } = await conversed.process(DAYS, 0);
    for (const { type, day } of told) {
      if (day !== undefined) turns.push({ day, moments: [] });
      else if (turns.length === 0) before += 1;
      else turns.at(-1)!.moments.push(type);
    }
    await conversed.goOn(findings.at("no kill"), 1, DAYS);
  });
  for (const { moments } of turns) {
    findings.count("moments", moments.length);
    if (moments.includes("retry")) findings.count("overflows");
    else if (moments.includes("compact_done")) findings.count("thresholds");
  }
  return { turns, before };
}

/** A moment of a turn to be killed at. */
interface Kill {
  day: number;
  /** From 1. */
  moment: number;
  type: Told["type"];
  /** The day to which it goes on. */
  until: number;
}

/** All moments; in the short form those of the first turn that is compacted, and of the overflow. */
function killsIn(turns: readonly Turn[], { isShort, count = Infinity, seed }: HarnessOptions): Kill[] {
  const compacted = turns.find(({ moments }) => moments.includes("compact_done"))!;
  const overflown = turns.find(({ moments }) => moments.includes("retry"))!;
  const kills = (isShort ? [compacted, overflown] : turns).flatMap(({ day, moments }) =>
    moments.map((type, at) => ({ day, moment: at + 1, type, until: Math.min(day + 1, DAYS) })),
  );
  const random = new SeededRandom(seed);
  while (kills.length > count) kills.splice(random.below(kills.length), 1);
  // One of each turn goes on to the end of the conversation; in the short form one of all.
  const isFirst = ({ moment }: Kill, at: number) => (isShort ? at === 0 : moment === 1 + random.below(20));
  return kills.map((kill, at) => (isFirst(kill, at) ? { ...kill, until: DAYS } : kill));
}

/** Kills a process at one moment of one turn, and goes on. */
async function killOnce(
  options: HarnessOptions,
  findings: Findings,
  whole: string,
  { day, moment, type, until, nth }: Kill & { nth: number },
): Promise<void> {
  const here = findings.at(`day ${day}, moment ${moment}, ${type}`);
  const file = join(options.folder, `day${day}-${moment}.jsonl`);
  copyFileSync(`${whole}.${day}`, file);
  if (existsSync(`${looksOf(whole)}.${day}`)) copyFileSync(`${looksOf(whole)}.${day}`, looksOf(file));
  await inGarden(options, file, async (conversed) => {
    const { told, wasKilled } = await conversed.process(day, nth);
    if (!wasKilled || told.at(-1)?.type !== type)
      return here.fault(`killed ${wasKilled} at ${told.at(-1)?.type}.`);
    findings.count("kills");
    findings.count(`killed at ${type}`);
    if (until === DAYS) findings.count("went on to the end");
    await conversed.goOn(here, day, until);
  });
  for (const one of [file, looksOf(file)]) rmSync(one, { force: true });
}

/** One conversation from its first turn to its last, in which no process gets further than some moments. */
async function killOverAndOver(options: HarnessOptions, findings: Findings): Promise<void> {
  const random = new SeededRandom(options.seed);
  const file = writeSession(join(options.folder, "over-and-over.jsonl"));
  await inGarden(options, file, async (conversed) => {
    for (let wasKilled = true; wasKilled; ) {
      ({ wasKilled } = await conversed.process(DAYS, 1 + random.below(options.isShort ? 200 : 30)));
      if (wasKilled) findings.count("killed in a row");
    }
    await conversed.goOn(findings.at("killed over and over"), 1, DAYS);
  });
}

/** Has a conversation in a file, with a model of its own, for as long as `work` takes. */
async function inGarden(
  options: HarnessOptions,
  file: string,
  work: (conversed: Conversed) => Promise<void>,
): Promise<void> {
  const garden = await startMessagesServer({ contextWindow: WINDOW, reply });
  try {
    await work(new Conversed(options, file, garden));
  } finally {
    await garden.close();
  }
}

/** A conversation in a file: processes have it until they are killed, and it is judged. */
class Conversed {
  /** The server of its model, which looks at the garden once a day and then answers at length. It has no state. */
  readonly garden: MessagesServer;
  readonly kills: Remains[] = [];
  readonly #file: string;
  readonly #options: HarnessOptions;

  constructor(options: HarnessOptions, file: string, garden: MessagesServer) {
    this.#options = options;
    this.#file = file;
    this.garden = garden;
  }

  /** Lets a process have the conversation until a day, or until it is killed at its moment number `moment` (0: never). */
  async process(until: number, moment: number): Promise<{ told: Told[]; wasKilled: boolean }> {
    const { store, folder } = this.#options;
    const parameters = ["conversation", store, folder, this.#file, this.garden.url, until, moment];
    const child = new Child(this.#options, parameters);
    await child.over;
    const told = child.lines.map((line) => JSON.parse(line) as Told);
    const { wasKilled } = child;
    if (wasKilled) this.kills.push({ bytes: readFileSync(this.#file), told });
    return { told, wasKilled };
  }

  /** Continues in this process until a day, and judges the result; `from` is the first day that the model was asked about. */
  async goOn(findings: Findings, from: number, until: number): Promise<void> {
    const { store, folder: home } = this.#options;
    const { kills, garden } = this;
    const agent = await openGardener({ store, home, file: this.#file, url: garden.url });
    const last = kills.at(-1);
    // Unless another process has continued since.
    if (last && wasWaiting(last) && last.bytes.equals(readFileSync(this.#file))) {
      const { state } = agent.state;
      findings.expect(state === "outcome-unknown", `its state is ${state}.`);
    }
    try {
      await converse(agent, until);
      for (const judge of [lostIn, twiceIn, askedAgain, invalidIn])
        for (const problem of judge({ agent, garden, from, until, kills })) findings.fault(problem);
    } catch (error) {
      findings.fault(`it does not continue: ${(error as Error).message}`);
    } finally {
      await agent.session.close();
    }
  }
}

/** State that a killed process left: its file, and the lines about its moments. */
interface Remains {
  bytes: Buffer;
  told: readonly Told[];
}

/**
 * A conversation with killed processes up to the day `until`. Its server received requests from the day `from` on.
 */
interface Conversation extends Pick<Conversed, "garden" | "kills"> {
  agent: Agent;
  from: number;
  until: number;
}

/** True for a process that was killed between a request and the entry of its answer. */
const wasWaiting = ({ told }: Remains): boolean => WAITING.has(told.at(-1)?.type ?? "");
const WAITING: ReadonlySet<string> = new Set(["request", "thinking", "text"]);

/** Acknowledged entries are there, and nothing that was written has changed. */
function* lostIn({ agent: { session }, kills }: Conversation): Generator<string> {
  const now = readFileSync(session.file);
  for (const { bytes, told } of kills) {
    if (!now.subarray(0, bytes.length).equals(bytes)) yield "bytes of the killed process have changed.";
    for (const { type, id } of told)
      if (id !== undefined && !session.getEntry(id)) yield `the ${type} ${id} is lost.`;
  }
  const { issues } = session.diagnose();
  if (issues.length > 0) yield `the file has the issue ${issues[0]!.kind}.`;
}

/** Each day has one prompt, one call, one result of it, and one answer; and its tool ran once, or was interrupted. */
function* twiceIn({ agent, until, kills }: Conversation): Generator<string> {
  const entries = agent.session.getEntries();
  const days = Array.from({ length: until }, (_, at) => at + 1);
  const prompts = daysAsked(agent);
  if (`${prompts}` !== `${days}`) yield `the prompts are those of the days ${prompts}.`;
  const looks = looksIn(agent.session.file);
  let shown = 0;
  for (const day of days) {
    const { calls, results, answers } = saidOn(entries, day);
    const said = `${calls} calls, ${results.length} results, ${answers} answers`;
    if (said !== "1 calls, 1 results, 1 answers") yield `day ${day} has ${said}.`;
    const runs = looks.filter((look) => look === day).length;
    const isInterrupted = results.includes(true);
    if (runs > 1 || (runs === 0 && !isInterrupted)) yield `on day ${day} the tool ran ${runs} times.`;
    if (!isInterrupted) shown += 1;
  }
  const ended = kills.flatMap(({ told }) => told.filter(({ type }) => type === "tool_end")).length;
  if (shown < ended) yield "an acknowledged result is not there.";
}

/** Counts a day's calls and answers, and lists whether each result is an error. */
function saidOn(entries: readonly Entry[], day: number) {
  const said = { calls: 0, results: [] as boolean[], answers: 0 };
  for (const entry of entries) {
    if (isMessage(entry, "toolResult") && entry.message.toolCallId === callOf(day))
      said.results.push(entry.message.isError);
    if (!isMessage(entry, "assistant")) continue;
    if (toolCalls(entry.message).some(({ id }) => id === callOf(day))) said.calls += 1;
    if (entry.message.content.some((block) => block.type === "text" && dayOf(block.text) === day))
      said.answers += 1;
  }
  return said;
}

/** Requests beyond those that the answers needed, and those of processes that were killed while they waited. */
function* askedAgain({ garden, from, until, kills }: Conversation): Generator<string> {
  const asked = garden.requests.filter((request) => askedBy(request).day > 0 && !isRefused(request)).length;
  const answers = 2 * (until - from + 1);
  const waiting = kills.filter(wasWaiting).length;
  if (asked > answers + waiting) yield `${asked} requests were sent for ${answers} answers.`;
}

/** Every request, that after the last answer too. */
function* invalidIn({ agent, garden }: Conversation): Generator<string> {
  for (const failure of garden.failures) yield `the server failed: ${failure}`;
  for (const { problems } of garden.requests) yield* problems;
  const request = buildRequest(agent.session.context, { format: anthropicFormat });
  yield* checkAnthropicRequest({ model: "m", max_tokens: 1, ...request });
  if (agent.state.state !== "answered") yield `its state is ${agent.state.state}.`;
}

/** An event in a process: of the agent, or of a tool that has run and not yet returned. */
type Moment = AgentEvent | { type: "tool_ran" };

/** Opens a session with an agent, in the middle of a long conversation. `tell` receives every later moment. */
async function openGardener(
  { store, home, file, url }: { store: StoreName; home: string; file: string; url: string },
  tell: (moment: Moment) => void = () => {},
): Promise<Agent> {
  const compaction = { keepRecentTokens: 8_000 };
  const session = await openSession(
    { file },
    { store: storeNamed(store, home), home, log: SILENT, compaction },
  );
  const client = new Anthropic({ apiKey: "key", baseURL: url });
  const agent = createAgent({
    session,
    model: anthropic(client, { model: "claude-haiku-4-5", contextWindow: WINDOW }),
    system: SYSTEM,
    tools: [
      {
        name: "look",
        async run({ day }) {
          appendFileSync(looksOf(file), `${day}\n`);
          tell({ type: "tool_ran" });
          return `The pears of day ${day} are ripe.`;
        },
      },
    ],
    overflowRetryDelayMs: 1,
  });
  agent.on(tell);
  return agent;
}

/** Returns the path of a file beside the session. The tool appends a line to it with the day of each run. */
const looksOf = (file: string): string => `${file}.looks`;

/** Returns the days on which the tool ran. */
function looksIn(file: string): number[] {
  if (!existsSync(looksOf(file))) return [];
  return readFileSync(looksOf(file), "utf8").trimEnd().split("\n").map(Number);
}

/** Continues the session up to the day `until`. `onDay` is called before each new day. */
async function converse(agent: Agent, until: number, onDay: (day: number) => void = () => {}): Promise<void> {
  await agent.continue();
  for (let day = Math.max(0, ...daysAsked(agent)) + 1; day <= until; day += 1) {
    onDay(day);
    await agent.run(promptOf(day));
  }
}

/** Returns the days of the prompts in a session. */
const daysAsked = ({ session }: Agent): number[] =>
  session
    .getEntries()
    .flatMap((entry) => (isMessage(entry, "user") ? [dayOf(`${entry.message.content}`)] : []));

const SILENT = { warn() {}, error() {} };

/** Number of days in the conversation. Each day has one turn. */
const DAYS = 60;

/** Window of the garden's model, in tokens. With the default reserve, about every thirteenth turn overfills it. */
const WINDOW = 60_000;

/** The day on which the model refuses a request as too long although it fits the known window. */
const FULL_DAY = 35;

/** Maximum size in bytes of a request on that day: smaller than the context, larger than a compacted one. */
const FULL_BYTES = 80_000;

/** System prompt of every request of the gardener; requests for summaries have another one. */
const SYSTEM = "You tend a garden.";

const promptOf = (day: number): string => `Day ${day}: how are the pears? ${"Look well. ".repeat(160)}`;

/** Day of a text of the conversation; 0 for another text. */
const dayOf = (text: string): number => Number(/^Day (\d+)\b/.exec(text)?.[1] ?? 0);

/** The id of the one call that a day's first answer makes. */
const callOf = (day: number): string => `toolu_${day}`;

/** Reads what a request asks for: the call of a day, its answer, or (0) a summary. */
function askedBy({ body }: ReceivedRequest): { day: number; isAnswer: boolean } {
  const messages = body["messages"] as {
    role: string;
    content: string | { type: string; text?: string }[];
  }[];
  const said = messages.map(({ role, content }) => ({
    role,
    blocks: typeof content === "string" ? [{ type: "text", text: content }] : content,
  }));
  const last = said.at(-1)!.blocks;
  const isSummary =
    !JSON.stringify(body["system"] ?? "").includes(SYSTEM) ||
    last.some(({ text }) => text?.includes("asks for a summary"));
  if (isSummary) return { day: 0, isAnswer: true };
  const texts = said.flatMap(({ role, blocks }) =>
    role === "user" ? blocks.flatMap(({ text = "" }) => dayOf(text) || []) : [],
  );
  return { day: texts.at(-1) ?? 0, isAnswer: last[0]?.type === "tool_result" };
}

/** True for a request that the model refuses as too long. */
function isRefused(request: ReceivedRequest): boolean {
  const { day, isAnswer } = askedBy(request);
  return day === FULL_DAY && !isAnswer && request.raw.length > FULL_BYTES;
}

function reply(request: ReceivedRequest): Reply {
  const { day, isAnswer } = askedBy(request);
  if (day === 0) return textReply(SUMMARY);
  if (isRefused(request)) return tooLongReply(WINDOW + 1, WINDOW);
  const thinking = {
    type: "thinking" as const,
    thinking: `Day ${day}: ä € 🌱`,
    signature: `signed-${day}==`,
  };
  const content = isAnswer
    ? ({ type: "text", text: `Day ${day}. ${"The pears grow. ".repeat(540)}` } as const)
    : ({ type: "tool_use", id: callOf(day), name: "look", input: { day } } as const);
  return { kind: "message", content: [thinking, content], deltaLength: 3_000 };
}

const SUMMARY = [
  "## Goal\nTend the garden.",
  "## Constraints & Preferences\n- none",
  "## Progress\n### Done\n- [x] looked\n### In Progress\n- [ ] look on\n### Blocked\n- none",
  "## Key Decisions\n- **Look**: daily",
  "## Next Steps\n1. Look again.",
  "## Critical Context\n- Pears.",
].join("\n\n");
