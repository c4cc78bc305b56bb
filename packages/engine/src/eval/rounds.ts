// A session that is played again and compacted at several points, in memory.
import { generateSummary, type Rule } from "@espalier/compaction";
import { memoryOffloadStorage } from "@espalier/compaction/policies";
import { EspalierError } from "@espalier/jsonl-stream";
import { type ContextMessage, estimateTotal, memoryStore, message } from "@espalier/session-tree";
import type { Summarizer } from "@espalier/summarizer";
import type { PolicyName } from "../compaction/policies.ts";
import { rulesOf } from "../session/edit.ts";
import { createSession } from "../session/open.ts";
import type { Session } from "../session/session.ts";
import type { Cut } from "./measures.ts";
import { ReadMessage, Transcript } from "./transcript.ts";

/** A cut with the text that is in the place of the summarized messages. */
export interface Round extends Cut {
  /** Point of the session, from 1. */
  point: number;
  text: string;
  /** Tokens of everything that the model reads then, by characters / 4. */
  contextTokens: number;
}

/** Number of points at which a session is cut. */
const POINTS = 6;

/** Fewest messages before a cut that are worth summarizing. */
export const FEWEST_MESSAGES = 20;

/** Tokens that stay as they are: those of the settings, and those for sessions that have little more. */
const KEPT_TOKENS = 20_000;
const KEPT_OF_SHORT = 6_000;

/** With fewer cuts than these a session is short. */
const FEWEST_CUTS = 4;

/** Cuts of a session, oldest first, and the tokens that each of them keeps. */
export interface Cuts {
  /** Tokens of the newest messages that stay as they are. */
  keepTokens: number;
  cuts: readonly (Cut & Pick<Round, "point">)[];
}

/** Cuts a session at six points; of a short session less is kept, unless `keepTokens` says how much. */
export function cutsOf(transcript: Transcript, keepTokens?: number): Cuts {
  const keeping = (tokens: number): Cuts => ({
    keepTokens: tokens,
    cuts: Array.from({ length: POINTS }, (_, at) => cutAt(transcript, at + 1, tokens)).flatMap(
      (cut) => cut ?? [],
    ),
  });
  if (keepTokens !== undefined) return keeping(keepTokens);
  const usual = keeping(KEPT_TOKENS);
  return usual.cuts.length >= FEWEST_CUTS ? usual : keeping(KEPT_OF_SHORT);
}

const nowAt = ({ messages }: Transcript, point: number): number =>
  Math.floor((messages.length * point) / (POINTS + 1));

function cutAt(
  transcript: Transcript,
  point: number,
  keepTokens: number,
): (Cut & { point: number }) | undefined {
  const { messages } = transcript;
  const now = nowAt(transcript, point);
  let from = now;
  for (let kept = 0; from > 0 && kept < keepTokens; ) kept += messages[--from]!.tokens;
  while (from < now && messages[from]!.role === "toolResult") from++;
  if (from < FEWEST_MESSAGES) return undefined;
  return { point, now, summarized: numbersTo(from), kept: numbersTo(now).slice(from) };
}

const numbersTo = (end: number): number[] => Array.from({ length: end }, (_, at) => at);

/** Summarizes what is before each cut at once, as if there had been no compaction before. */
export async function summarizedAtOnce(
  transcript: Transcript,
  { cuts }: Cuts,
  summarize: Summarizer,
  signal?: AbortSignal,
): Promise<Played> {
  const rounds: Round[] = [];
  let problem: string | null = null;
  for (const cut of cuts) {
    const history = cut.summarized.map((at) => transcript.messages[at]!.message);
    const asked = { summarizer: summarize, ...(signal ? { signal } : {}) };
    try {
      const { text } = await generateSummary(history, asked);
      rounds.push(roundOf(transcript, cut, text));
    } catch (error) {
      problem ??= sentenceOf(error, signal);
    }
  }
  return { rounds, problem };
}

/** The sentence of a summary that failed, which is a result; throws everything else. */
function sentenceOf(error: unknown, signal: AbortSignal | undefined): string {
  signal?.throwIfAborted();
  if (error instanceof EspalierError) return error.message;
  throw error;
}

/** Forecasts the requests to a summarizer for one session: at once, and under so many policies. */
export function forecastSummaries(
  messages: readonly ContextMessage[],
  policies: number,
  keepTokens?: number,
): { requests: number; inputTokens: number; outputTokens: number } {
  const transcript = new Transcript(messages);
  const { cuts } = cutsOf(transcript, keepTokens);
  const tokensOf = (numbers: readonly number[]) =>
    numbers.reduce((sum, at) => sum + transcript.messages[at]!.tokens, 0);
  const atOnce = cuts.reduce((sum, { summarized }) => sum + tokensOf(summarized), 0);
  // Each round summarizes what is new in one request or two, and updates the summary before it.
  const played = tokensOf(cuts.at(-1)?.summarized ?? []) + cuts.length * WRITTEN_TOKENS;
  const requests = cuts.length * (1 + 2 * policies);
  return { requests, inputTokens: atOnce + policies * played, outputTokens: requests * WRITTEN_TOKENS };
}

/** Tokens of a summary, as forecast. */
const WRITTEN_TOKENS = 1_500;

/** A cut with a text as its summary. */
export function roundOf(transcript: Transcript, cut: Cut & { point: number }, text: string): Round {
  const kept = cut.kept.reduce((sum, at) => sum + transcript.messages[at]!.tokens, 0);
  return { ...cut, text, contextTokens: Math.ceil(text.length / 4) + kept };
}

/** Result of playing a session: its rounds, and the sentence of a compaction that was refused. */
export interface Played {
  rounds: Round[];
  problem: string | null;
}

/**
 * Plays a session into a store in memory and compacts it at each point by a policy: each summary updates the one before it,
 * and carries the core's own blocks.
 */
export async function playRounds(
  transcript: Transcript,
  { keepTokens, cuts }: Cuts,
  policy: PolicyName,
  summarize: Summarizer,
  signal?: AbortSignal,
): Promise<Played> {
  const session = await emptySession();
  const rounds: Round[] = [];
  let problem: string | null = null;
  try {
    for (const [at, { point, now }] of cuts.entries()) {
      await appendUpTo(session, transcript, cuts[at - 1]?.now ?? 0, now);
      try {
        await session.compact({
          policy,
          settings: { keepRecentTokens: keepTokens },
          summarizer: summarize,
          fallback: false,
          ...(signal ? { signal } : {}),
        });
      } catch (error) {
        problem ??= sentenceOf(error, signal);
      }
      const round = readRound(session, transcript, point, now);
      if (round.text !== "") rounds.push(round);
    }
  } finally {
    await session.close();
  }
  return { rounds, problem };
}

/** The rules that hold at each cut, by the messages alone. */
export async function rulesByCut(transcript: Transcript, { cuts }: Cuts): Promise<Rule[][]> {
  const session = await emptySession();
  const rules: Rule[][] = [];
  try {
    for (const [at, { now }] of cuts.entries()) {
      await appendUpTo(session, transcript, cuts[at - 1]?.now ?? 0, now);
      rules.push(rulesOf(session));
    }
  } finally {
    await session.close();
  }
  return rules;
}

/** An empty session with the same name, time and place on every machine. */
const emptySession = (): Promise<Session> =>
  createSession({
    store: memoryStore(),
    id: "eval",
    cwd: "/",
    now: () => TIME,
    offloadStorage: memoryOffloadStorage(),
    // Nothing is written: what is measured is the session as it is.
    redact: false,
    log: { warn: () => {}, error: () => {} },
  });

const TIME = Date.UTC(2026, 0, 1);

async function appendUpTo(
  session: Session,
  transcript: Transcript,
  from: number,
  now: number,
): Promise<void> {
  const drafts = transcript.messages
    .slice(from, now)
    .map(({ message: said }, at) =>
      message.of({ id: `${ID}${from + at}`, message: withoutUsage(said) as never }),
    );
  if (drafts.length > 0) await session.append(drafts);
}

/** What a provider counted was the context of the recorded run; a policy would take it for the one that is played. */
function withoutUsage(said: object): object {
  const { usage: _, ...rest } = said as { usage?: unknown };
  return rest;
}

/** Beginning of the ids of messages; their number follows. */
const ID = "message-";

/** What the model reads after a compaction: messages as they were, and texts in the place of all others. */
function readRound(session: Session, transcript: Transcript, point: number, now: number): Round {
  const { messages, sources } = session.context;
  const kept = new Set<number>();
  const texts: string[] = [];
  for (const [at, said] of messages.entries()) {
    const source = sources[at]!;
    const number = source.startsWith(ID) ? Number(source.slice(ID.length)) : -1;
    const original = transcript.messages[number];
    const { text } = new ReadMessage(said);
    if (original?.text === text) kept.add(number);
    else if (said.role !== "system") texts.push(text);
  }
  return {
    point,
    now,
    kept: [...kept],
    summarized: numbersTo(now).filter((number) => !kept.has(number)),
    text: texts.join("\n\n"),
    contextTokens: estimateTotal(messages),
  };
}
