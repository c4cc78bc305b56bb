import { readFileSync } from "node:fs";
import { buildRequest, type Entry, isMessage, toolCalls } from "@espalier/session-tree";
import { checkAnthropicRequest, type MessagesServer } from "@espalier/summarizer/testing";
import type { Told } from "./children/conversing.ts";
import { askedBy, callOf, dayOf, isRefused } from "./garden.ts";
import { type Gardener, looksIn } from "./gardener.ts";
import type { Findings } from "./harness.ts";

/** What a killed process left behind. */
export interface Remains {
  /** The file. */
  bytes: Buffer;
  /** What the process had told of itself. */
  told: readonly Told[];
}

/** A conversation that processes were killed in, when it has come to the end of a day. */
export interface Conversation {
  gardener: Gardener;
  /** The server that was asked from the day `from` on. */
  garden: MessagesServer;
  from: number;
  /** The last day that was asked about. */
  until: number;
  kills: readonly Remains[];
}

/** Whether a process was killed between a request and the entry of its answer. */
export const wasWaiting = ({ told }: Remains): boolean => WAITING.has(told.at(-1)?.type ?? "");

const WAITING: ReadonlySet<string> = new Set(["request", "thinking", "text"]);

/** Says of a conversation what was lost in it, and what was done twice; `when` names it. */
export function judgeConversation(findings: Findings, conversation: Conversation, when: string): void {
  const problems = [
    ...lostIn(conversation),
    ...twiceIn(conversation),
    ...askedAgain(conversation),
    ...invalidIn(conversation),
  ];
  for (const problem of problems) findings.fault(`${when}: ${problem}`);
}

/** What was acknowledged is there, and nothing that was written has changed. */
function* lostIn({ gardener: { session }, kills }: Conversation): Generator<string> {
  const now = readFileSync(session.file);
  for (const { bytes, told } of kills) {
    if (!now.subarray(0, bytes.length).equals(bytes)) yield "what the killed process wrote has changed.";
    for (const { type, id } of told)
      if (id !== undefined && !session.getEntry(id)) yield `the ${type} ${id} is lost.`;
  }
  const { issues } = session.diagnose();
  if (issues.length > 0) yield `the file has the issue ${issues[0]!.kind}.`;
}

/** Each day has one prompt, one call, one result of it, and one answer; and its tool ran once, or was interrupted. */
function* twiceIn({ gardener: { session }, until, kills }: Conversation): Generator<string> {
  const entries = session.getEntries();
  const days = Array.from({ length: until }, (_, at) => at + 1);
  const prompts = entries.flatMap((entry) =>
    isMessage(entry, "user") ? [dayOf(`${entry.message.content}`)] : [],
  );
  if (`${prompts}` !== `${days}`) yield `the prompts are those of the days ${prompts}.`;
  const looks = looksIn(session.file);
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
  if (shown < ended) yield "a result that was told of is not there.";
}

/** How often a day's call was made, whether its results say that something went wrong, and how often it was answered. */
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

/** What was asked for once more than was needed, where nobody was killed while waiting for it. */
function* askedAgain({ garden, from, until, kills }: Conversation): Generator<string> {
  const asked = garden.requests.filter((request) => askedBy(request).day > 0 && !isRefused(request)).length;
  const answers = 2 * (until - from + 1);
  const waiting = kills.filter(wasWaiting).length;
  if (asked > answers + waiting) yield `${asked} requests were sent for ${answers} answers.`;
}

/** Every request, that after the last answer too. */
function* invalidIn({ gardener: { session, agent }, garden }: Conversation): Generator<string> {
  for (const failure of garden.failures) yield `the server failed: ${failure}`;
  for (const { problems } of garden.requests) yield* problems;
  const request = buildRequest(session.context, { format: agent.model.format }) as object;
  yield* checkAnthropicRequest({ model: "m", max_tokens: 1, ...request });
  if (agent.state.state !== "answered") yield `it says of itself: ${agent.state.state}.`;
}
