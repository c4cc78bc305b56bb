// Replay of a session in memory, with a compaction at several points.
import { generateSummary, type Rule, rulesOn } from "@espalier/compaction";
import { memoryOffloadStorage, type PolicyName } from "@espalier/compaction/policies";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  type ContextMessage,
  type Entry,
  estimateTotal,
  memoryStore,
  message,
  type NewEntry,
} from "@espalier/session-tree";
import type { Summarizer } from "@espalier/summarizer";
import { createSession } from "../session/open.ts";
import type { Session } from "../session/session.ts";
import type { Cut } from "./measures.ts";
import { ReadMessage, Transcript, tokensOf } from "./transcript.ts";

/** A cut with the text that replaces the summarized messages. */
export interface Round extends Cut {
  text: string;
  /** Tokens of the context at that point, in characters / 4. */
  contextTokens: number;
}

/** Number of points at which a session is cut. */
const POINTS = 6;

/** Minimum number of messages that a cut summarizes. */
export const FEWEST_MESSAGES = 20;

/** Tokens that are kept unchanged: by default, and for sessions that are only a little longer. */
const KEPT_TOKENS = 20_000;
const KEPT_OF_SHORT = 6_000;

/** A session with fewer cuts counts as short. */
const FEWEST_CUTS = 4;

/** Cuts of a session, oldest first, and the tokens that each of them keeps. */
export interface Cuts {
  /** Tokens of the newest messages, which are kept unchanged. */
  keepTokens: number;
  cuts: readonly Cut[];
}

/**
 * Cuts a session at up to six points; points with too few messages to summarize are left out. For a short session fewer
 * tokens are kept, unless `keepTokens` is given.
 */
export function cutsOf(transcript: Transcript, keepTokens?: number): Cuts {
  const keeping = (tokens: number): Cuts => ({
    keepTokens: tokens,
    cuts: Array.from({ length: POINTS }, (_, at) => cutAt(transcript, at + 1, tokens) ?? []).flat(),
  });
  if (keepTokens !== undefined) return keeping(keepTokens);
  const usual = keeping(KEPT_TOKENS);
  return usual.cuts.length >= FEWEST_CUTS ? usual : keeping(KEPT_OF_SHORT);
}

function cutAt(transcript: Transcript, point: number, keepTokens: number): Cut | undefined {
  const { messages } = transcript;
  const now = Math.floor((messages.length * point) / (POINTS + 1));
  let from = now;
  for (let kept = 0; from > 0 && kept < keepTokens; ) kept += messages[--from]!.tokens;
  while (from < now && messages[from]!.role === "toolResult") from++;
  if (from < FEWEST_MESSAGES) return undefined;
  const [summarized, kept] = [messages.slice(0, from), messages.slice(from, now)];
  return { transcript, point, now, summarized, kept, later: messages.slice(now) };
}

/** Forecasts the requests to a summarizer for one session: for summaries at once, and for this number of policies. */
export function forecastSummaries(
  messages: readonly ContextMessage[],
  policies: number,
  keepTokens?: number,
): { requests: number; inputTokens: number; outputTokens: number } {
  const { cuts } = cutsOf(new Transcript(messages), keepTokens);
  const atOnce = cuts.reduce((sum, { summarized }) => sum + tokensOf(summarized), 0);
  // Each round summarizes the new messages in one or two requests, and updates the previous summary.
  const played = tokensOf(cuts.at(-1)?.summarized ?? []) + cuts.length * WRITTEN_TOKENS;
  const requests = cuts.length * (1 + 2 * policies);
  return { requests, inputTokens: atOnce + policies * played, outputTokens: requests * WRITTEN_TOKENS };
}

/** Assumed tokens of a summary. */
const WRITTEN_TOKENS = 1_500;

/** Returns a cut with a text as its summary. */
export const roundOf = (cut: Cut, text: string): Round => ({
  ...cut,
  text,
  contextTokens: Math.ceil(text.length / 4) + tokensOf(cut.kept),
});

/**
 * Summarizes a session at each cut. Without a policy, all messages before the cut are summarized at once. With one, the
 * session is replayed in a store in memory and compacted: each summary updates the previous one and has the core's own
 * blocks. `problem` is the message of a summary that failed, which is a result; null when none did.
 */
export async function playRounds(
  { keepTokens, cuts }: Cuts,
  policy: PolicyName | null,
  summarizer: Summarizer,
  signal?: AbortSignal,
): Promise<{ rounds: Round[]; problem: string | null }> {
  const asked = { summarizer, ...(signal ? { signal } : {}) };
  const session = policy === null ? undefined : await emptySession();
  const rounds: Round[] = [];
  let problem: string | null = null;
  try {
    for (const [at, cut] of cuts.entries()) {
      await session?.append(cut.transcript.messages.slice(cuts[at - 1]?.now ?? 0, cut.now).map(entryOf));
      try {
        if (session && policy)
          await session.compact({
            ...asked,
            policy,
            settings: { keepRecentTokens: keepTokens },
            fallback: false,
          });
        else {
          const history = cut.summarized.map((said) => said.message);
          rounds.push(roundOf(cut, (await generateSummary(history, asked)).text));
        }
      } catch (error) {
        signal?.throwIfAborted();
        if (!(error instanceof EspalierError)) throw error;
        problem ??= error.message;
      }
      const round = session && readRound(session, cut);
      if (round && round.text !== "") rounds.push(round);
    }
  } finally {
    await session?.close();
  }
  return { rounds, problem };
}

/** Returns the rules that apply at a cut, from the messages alone. */
export const rulesAt = ({ transcript, now }: Cut): Rule[] =>
  rulesOn(transcript.messages.slice(0, now).map((said) => entryOf(said) as Entry));

/** Makes an empty session with the same name, time and folder on every machine. */
const emptySession = (): Promise<Session> =>
  createSession({
    store: memoryStore(),
    id: "eval",
    cwd: "/",
    now: () => Date.UTC(2026, 0, 1),
    offloadStorage: memoryOffloadStorage(),
    // Texts are not redacted: the measures need them unchanged.
    redact: false,
    log: { warn: () => {}, error: () => {} },
  });

/** Prefix of the ids of messages, before their number. */
const ID = "message-";

/**
 * Makes the entry of a message, without its recorded usage: it measured the context of the recorded run, and a policy
 * would apply it to the replay.
 */
function entryOf({ message: said, at }: ReadMessage): NewEntry {
  const { usage: _, ...rest } = said as { usage?: unknown };
  return message.of({ id: `${ID}${at}`, message: rest as never });
}

/** Reads the context after a compaction: kept messages unchanged, and the texts that replace all others. */
function readRound(session: Session, cut: Cut): Round {
  const { messages: all } = cut.transcript;
  const { messages, sources } = session.context;
  const kept = new Set<ReadMessage>();
  const texts: string[] = [];
  for (const [at, said] of messages.entries()) {
    const source = sources[at]!;
    const original = source.startsWith(ID) ? all[Number(source.slice(ID.length))] : undefined;
    const { text } = new ReadMessage(said);
    if (original?.text === text) kept.add(original);
    else if (said.role !== "system") texts.push(text);
  }
  return {
    ...cut,
    kept: [...kept],
    summarized: all.slice(0, cut.now).filter((said) => !kept.has(said)),
    text: texts.join("\n\n"),
    contextTokens: estimateTotal(messages),
  };
}
