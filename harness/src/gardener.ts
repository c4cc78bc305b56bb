import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { type Agent, type AgentEvent, anthropicModel, createAgent } from "@espalier/agent";
import { openSession, type Session } from "@espalier/engine";
import { isMessage } from "@espalier/session-tree";
import { dayOf, promptOf, SYSTEM, WINDOW } from "./garden.ts";
import { type StoreName, storeNamed } from "./store-named.ts";

/** Where a gardener's session is, and who answers in it. */
export interface GardenerPlace {
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

/** What happens in a process: an event of the agent, or a tool that has done its work and whose result nobody knows yet. */
export type Moment = AgentEvent | { type: "tool_ran" };

/** Opens a session and puts an agent on it; `tell` hears of every moment from then on. */
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
    model: anthropicModel({ apiKey: "key", baseURL: url, model: "claude-haiku-4-5", contextWindow: WINDOW }),
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

/** Goes on from where the session stands, until the day is answered; `onDay` is called before each new one. */
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
