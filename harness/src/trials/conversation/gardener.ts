import { appendFileSync, existsSync, readFileSync } from "node:fs";
import Anthropic from "@anthropic-ai/sdk";
import { type Agent, type AgentEvent, createAgent } from "@espalier/agent";
import { openSession, type Session } from "@espalier/engine";
import { anthropic } from "@espalier/engine/anthropic";
import { isMessage } from "@espalier/session-tree";
import {
  type MessagesServer,
  type ReceivedRequest,
  type Reply,
  startMessagesServer,
  textReply,
  tooLongReply,
} from "@espalier/summarizer/testing";
import { type StoreName, storeNamed } from "../../stores.ts";

/** Session of a gardener, and its model. */
interface GardenerPlace {
  store: StoreName;
  home: string;
  file: string;
  /** The address of the garden. */
  url: string;
}

/** An agent on a session, in the middle of a long conversation. */
export interface Gardener {
  session: Session;
  agent: Agent;
}

/** A moment of a process: an event of the agent, or a tool that has done its work and not yet returned. */
export type Moment = AgentEvent | { type: "tool_ran" };

/** Opens a session and puts an agent on it; `tell` receives every moment from then on. */
export async function openGardener(
  { store, home, file, url }: GardenerPlace,
  tell: (moment: Moment) => void = () => {},
): Promise<Gardener> {
  const session = await openSession(
    { file },
    {
      store: storeNamed(store, home),
      home,
      log: SILENT,
      compaction: { keepRecentTokens: 8_000 },
    },
  );
  const agent = createAgent({
    session,
    model: anthropic(new Anthropic({ apiKey: "key", baseURL: url }), {
      model: "claude-haiku-4-5",
      contextWindow: WINDOW,
    }),
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
  return { session, agent };
}

/** The file beside a session's in which the tool writes, a line each, the days on which it was run. */
export const looksOf = (file: string): string => `${file}.looks`;

/** The days on which the tool was run. */
export function looksIn(file: string): number[] {
  if (!existsSync(looksOf(file))) return [];
  return readFileSync(looksOf(file), "utf8").trimEnd().split("\n").map(Number);
}

/** Continues the session until the day is answered; `onDay` is called before each new one. */
export async function converse(
  { session, agent }: Gardener,
  until: number,
  onDay: (day: number) => void = () => {},
): Promise<void> {
  await agent.continue();
  for (let day = daysAsked(session) + 1; day <= until; day += 1) {
    onDay(day);
    await agent.run(promptOf(day));
  }
}

function daysAsked(session: Session): number {
  const asked = session
    .getEntries()
    .map((entry) => (isMessage(entry, "user") ? dayOf(String(entry.message.content)) : 0));
  return Math.max(0, ...asked);
}

const SILENT = { warn() {}, error() {} };

/** Days of the conversation, a turn each. */
export const DAYS = 60;

/** Window of the garden's model, in tokens. With the default reserve, about every thirteenth turn overfills it. */
const WINDOW = 60_000;

/** The day on which the model refuses a request as too long although it fits the known window. */
const FULL_DAY = 35;

/** Bytes of a request that the model accepts on that day: less than the context has then, more than a compaction leaves. */
const FULL_BYTES = 80_000;

/** System prompt of every request of the gardener; requests for summaries have another one. */
const SYSTEM = "You tend a garden.";

/** Prompt of a day. */
const promptOf = (day: number): string => `Day ${day}: how are the pears? ${"Look well. ".repeat(160)}`;

/** Day of a text of the conversation; 0 for another text. */
export const dayOf = (text: string): number => Number(/^Day (\d+)\b/.exec(text)?.[1] ?? 0);

/** The id of the one call that a day's first answer makes. */
export const callOf = (day: number): string => `toolu_${day}`;

/** Starts a server whose model looks at the garden once a day and then answers at length. It has no state. */
export function openGarden(): Promise<MessagesServer> {
  return startMessagesServer({ contextWindow: WINDOW, reply });
}

/** Reads what a request asks for: the call of a day, its answer, or (0) a summary. */
export function askedBy({ body }: ReceivedRequest): { day: number; isAnswer: boolean } {
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
export function isRefused(request: ReceivedRequest): boolean {
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

/** A complete summary. */
const SUMMARY = [
  "## Goal\nTend the garden.",
  "## Constraints & Preferences\n- none",
  "## Progress\n### Done\n- [x] looked\n### In Progress\n- [ ] look on\n### Blocked\n- none",
  "## Key Decisions\n- **Look**: daily",
  "## Next Steps\n1. Look again.",
  "## Critical Context\n- Pears.",
].join("\n\n");
