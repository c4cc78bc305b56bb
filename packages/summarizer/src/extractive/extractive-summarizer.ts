import { CHARS_PER_TOKEN, estimateTokens } from "@espalier/session-tree";
import { throwIfAborted } from "../abort.ts";
import type { Summarizer, SummaryAnswer, SummaryRequest } from "../summarizer.ts";
import type { Facts } from "./facts.ts";
import { focusOn } from "./focus.ts";
import { parseSummaries } from "./previous-summary.ts";
import { wholeCodePoints } from "./quote.ts";
import { planSections } from "./sections.ts";
import { createDigestBuilder, type SessionDigest } from "./session-digest.ts";
import { writeSummary } from "./summary-text.ts";

/** How long its summaries may get. */
export interface ExtractiveSummarizerOptions {
  /** The most tokens of a summary, of 4 characters each. Default 2,000. */
  maxTokens?: number;
}

const DEFAULT_MAX_TOKENS = 2_000;
/** A summary of little is shorter than what it replaces: at most this share of the messages, but room for a screen. */
const LARGEST_SHARE = 0.6;
const SMALLEST_ROOM = 2_000;
/** Characters read before others get their turn on the thread and the signal is looked at: about 0.1 s. */
const CHARACTERS_AT_ONCE = 1_000_000;
/** What a message without text counts for in the time it takes. */
const MESSAGE_OVERHEAD = 100;

/**
 * Summarises without a model: the sections that models are asked for, written from the messages themselves. What
 * people and the agent said is quoted; what was done comes from calls and their results; exact strings are chosen by
 * who wrote them, how often and how lately. The same request gives the same bytes. It needs no network, costs nothing
 * and takes time in proportion to the messages.
 *
 * `maxTokens` and the request's `maxOutputTokens` bound the answer. When not even the headings fit, the answer is cut
 * and ends with `stopReason: "length"`.
 *
 * @throws SummarizerError `aborted` when the request's signal fires
 */
export function extractiveSummarizer({
  maxTokens = DEFAULT_MAX_TOKENS,
}: ExtractiveSummarizerOptions = {}): Summarizer {
  return {
    name: "extractive",
    contextWindow: Number.POSITIVE_INFINITY,
    maxOutputTokens: maxTokens,
    summarize: (request) => summarize(request, maxTokens),
  };
}

async function summarize(request: SummaryRequest, maxTokens: number): Promise<SummaryAnswer> {
  const focus = focusOn(request.customInstructions);
  const { digest, characters } = await readMessages(request, focus);
  const earlier = [request.previousSummary ?? "", ...digest.summaries];
  const facts: Facts = {
    purpose: request.purpose,
    digest,
    previous: parseSummaries(earlier),
    branches: parseSummaries(digest.branchSummaries),
    focus,
  };
  inherit(facts);
  const most = Math.max(0, Math.floor(Math.min(maxTokens, request.maxOutputTokens) * CHARS_PER_TOKEN));
  const worthwhile = earlier.join("").length + Math.floor(characters * LARGEST_SHARE);
  const room = Math.min(most, Math.max(SMALLEST_ROOM, worthwhile));
  const text = writeSummary(facts, planSections(request.purpose, request.sections), room);
  const model = { provider: "espalier", modelId: "extractive" };
  if (text.length <= most) return { text, stopReason: "stop", model };
  return { text: wholeCodePoints(text, most), stopReason: "length", model };
}

async function readMessages(
  { messages, signal }: SummaryRequest,
  focus: Facts["focus"],
): Promise<{ digest: SessionDigest; characters: number }> {
  const builder = createDigestBuilder(messages.length, focus);
  let characters = 0;
  let pause = CHARACTERS_AT_ONCE;
  throwIfAborted(signal);
  for (const [index, message] of messages.entries()) {
    builder.add(message, index);
    characters += estimateTokens(message) * CHARS_PER_TOKEN + MESSAGE_OVERHEAD;
    if (characters < pause) continue;
    pause = characters + CHARACTERS_AT_ONCE;
    await new Promise((resolve) => setTimeout(resolve, 0));
    throwIfAborted(signal);
  }
  return { digest: builder.digest, characters };
}

/** Lets the strings and files of earlier summaries compete with those of the messages. */
function inherit({ digest, previous, branches }: Facts): void {
  for (const summary of [previous, branches]) {
    for (const string of summary.strings) digest.strings.inherit(string);
    for (const { path, edits } of summary.files) digest.work.inherit(path, edits);
  }
}
