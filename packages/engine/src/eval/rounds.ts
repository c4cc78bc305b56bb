// Replay of a session in memory, with a compaction at several points.
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

/** A cut with the text that replaces the summarized messages. */
export interface Round extends Cut {
  /** Number of the point in the session, from 1. */
  point: number;
  text: string;
  /** Tokens of the context at that point, in characters / 4. */
  contextTokens: number;
}

/** Number of points at which a session is cut. */
const POINTS = 6;

/** Minimum number of messages before a cut. */
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
  cuts: readonly (Cut & Pick<Round, "point">)[];
}

/** Cuts a session at six points. For a short session fewer tokens are kept, unless `keepTokens` is given. */
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

/** Summarizes all messages before each cut at once, without earlier compactions. */
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

/** Returns the message of a failed summary, which is a result; throws all other errors. */
function sentenceOf(error: unknown, signal: AbortSignal | undefined): string {
  signal?.throwIfAborted();
  if (error instanceof EspalierError) return error.message;
  throw error;
}

/** Forecasts the requests to a summarizer for one session: for summaries at once, and for this number of policies. */
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
  // Each round summarizes the new messages in one or two requests, and updates the previous summary.
  const played = tokensOf(cuts.at(-1)?.summarized ?? []) + cuts.length * WRITTEN_TOKENS;
  const requests = cuts.length * (1 + 2 * policies);
  return { requests, inputTokens: atOnce + policies * played, outputTokens: requests * WRITTEN_TOKENS };
}

/** Assumed tokens of a summary. */
const WRITTEN_TOKENS = 1_500;

/** Returns a cut with a text as its summary. */
export function roundOf(transcript: Transcript, cut: Cut & { point: number }, text: string): Round {
  const kept = cut.kept.reduce((sum, at) => sum + transcript.messages[at]!.tokens, 0);
  return { ...cut, text, contextTokens: Math.ceil(text.length / 4) + kept };
}

/** Rounds of a replayed session, and the message of a compaction that was refused. */
export interface Played {
  rounds: Round[];
  problem: string | null;
}

/**
 * Replays a session in a store in memory and compacts it at each point by a policy: each summary updates the previous
 * one and has the core's own blocks.
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

/** Returns the rules that apply at each cut, from the messages alone. */
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

/** Makes an empty session with the same name, time and folder on every machine. */
const emptySession = (): Promise<Session> =>
  createSession({
    store: memoryStore(),
    id: "eval",
    cwd: "/",
    now: () => TIME,
    offloadStorage: memoryOffloadStorage(),
    // Texts are not redacted: the measures need them unchanged.
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

/**
 * Removes the recorded usage: it measured the context of the recorded run, and a policy would apply it to the replay.
 */
function withoutUsage(said: object): object {
  const { usage: _, ...rest } = said as { usage?: unknown };
  return rest;
}

/** Prefix of the ids of messages, before their number. */
const ID = "message-";

/** Reads the context after a compaction: kept messages unchanged, and the texts that replace all others. */
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
