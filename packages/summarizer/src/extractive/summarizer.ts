import { CHARS_PER_TOKEN, estimateTokens } from "@espalier/session-tree";
import {
  SUMMARY_SECTIONS,
  type Summarizer,
  type SummaryAnswer,
  type SummaryPurpose,
  type SummaryRequest,
  throwIfAborted,
} from "../summarizer.ts";
import { criticalLines } from "./critical.ts";
import { createLineFitter, type Line } from "./lines.ts";
import { type Facts, WRITERS } from "./parts.ts";
import { type Part, parseSummaries, partsOf } from "./previous.ts";
import { wholeCodePoints } from "./quotation.ts";
import { createSessionRecord, type SessionRecord, sessionReader } from "./session.ts";
import { focusOn } from "./speech.ts";

/** Limits of its summaries. */
export interface ExtractiveSummarizerOptions {
  /** The most tokens of a summary, of 4 characters each. Default 2,000. */
  maxTokens?: number;
}

const DEFAULT_MAX_TOKENS = 2_000;

/** A summary of little is shorter than what it replaces: at most this share of the messages, but room for a screen. */
const LARGEST_SHARE = 0.6;
const SMALLEST_ROOM = 2_000;

/** Characters left free: a caller that counts each part of a text in whole tokens counts a little more than the text has. */
const ROUNDING = 8;

/** Characters read before others get their turn on the thread and the signal is looked at: about 0.1 s. */
const CHARACTERS_AT_ONCE = 1_000_000;

/** Cost of a message without text, in characters. */
const MESSAGE_OVERHEAD = 100;

/**
 * Summarises without a model: the sections that models are asked for, written from the messages themselves. What
 * people and the agent said is quoted, where room is short the clauses with the rarest words; what was done comes from
 * calls and their results. The same request gives the same bytes. It needs no network, costs nothing and takes time in
 * proportion to the messages.
 *
 * `maxTokens` and the request's `maxOutputTokens` bound the answer. When not even the headings fit, the answer is cut
 * and ends with `stopReason: "length"`.
 *
 * @throws SummaryError `aborted` when the request's signal fires
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
  const { record, characters } = await readMessages(request);
  const earlier = [request.previousSummary ?? "", ...record.summaries];
  const facts: Facts = {
    isTurnPrefix: request.purpose === "turn-prefix",
    record,
    previous: parseSummaries(earlier),
    branches: parseSummaries(record.branchSummaries),
    focus: focusOn(request.customInstructions),
  };
  const most = Math.max(0, Math.floor(Math.min(maxTokens, request.maxOutputTokens) * CHARS_PER_TOKEN));
  const worthwhile = earlier.join("").length + Math.floor(characters * LARGEST_SHARE);
  const room = Math.min(most - ROUNDING, Math.max(SMALLEST_ROOM, worthwhile));
  const text = writeSummary(facts, planSections(request.purpose, request.sections), room);
  const model = { provider: "espalier", modelId: "extractive" };
  if (text.length <= most) return { text, stopReason: "stop", model };
  return { text: wholeCodePoints(text, most), stopReason: "length", model };
}

async function readMessages({
  messages,
  signal,
}: SummaryRequest): Promise<{ record: SessionRecord; characters: number }> {
  const record = createSessionRecord();
  const read = sessionReader(record);
  let characters = 0;
  let pause = CHARACTERS_AT_ONCE;
  throwIfAborted(signal);
  for (const message of messages) {
    read(message);
    characters += estimateTokens(message) * CHARS_PER_TOKEN + MESSAGE_OVERHEAD;
    if (characters < pause) continue;
    pause = characters + CHARACTERS_AT_ONCE;
    await new Promise((resolve) => setTimeout(resolve, 0));
    throwIfAborted(signal);
  }
  return { record, characters };
}

const NOTHING = "(none)";

/** Most characters of each part in a summary of 8,000; work that was done takes what the others leave. */
const ROOMS: Record<Exclude<Part, "done">, number> = {
  goal: 1_100,
  constraints: 500,
  inProgress: 600,
  blocked: 700,
  nextSteps: 300,
  decisions: 1_000,
  critical: 3_000,
};
const ALL_ROOM = 8_000;

/** Every part has this much however small the summary is, the goal a little more, while there is room. */
const LEAST = 260;
const LEAST_GOAL = 400;

/** Parts in the order they are written; a later one does not tell again what an earlier one says. */
const FIRST = ["goal", "constraints", "inProgress", "nextSteps", "blocked"] as const;
const THEN = ["done", "decisions"] as const;

/** The whole summary: every heading, in at most `room` characters unless the headings alone take more. */
function writeSummary(facts: Facts, sections: readonly Section[], room: number): string {
  const fitter = createLineFitter(facts.record.rarity);
  const wanted = new Set(sections.flatMap((section) => section.parts));
  const written = new Map<Part, readonly string[]>();
  const free = Math.max(0, room - render(sections, written).length);
  let left = free;
  const write = (part: Exclude<Part, "critical">, most: number) => {
    if (!wanted.has(part)) return;
    const lines = fitter.fit(WRITERS[part](facts, most, fitter.told), most);
    written.set(part, lines);
    left -= lengthOf(lines);
  };
  const roomOf = (part: keyof typeof ROOMS) =>
    Math.max(Math.floor((free * ROOMS[part]) / ALL_ROOM), Math.min(ROOMS[part], LEAST));
  const critical = (most: number) => (wanted.has("critical") ? criticalLines(facts, fitter.told, most) : []);
  for (const part of FIRST)
    write(part, Math.min(left, part === "goal" ? Math.max(roomOf(part), LEAST_GOAL) : roomOf(part)));
  const kept = Math.min(needOf(critical(roomOf("critical"))), roomOf("critical"));
  const reasons = Math.min(needOf(WRITERS.decisions(facts, left, fitter.told)), roomOf("decisions"));
  for (const part of THEN) write(part, Math.max(0, left - kept - (part === "done" ? reasons : 0)));
  if (wanted.has("critical")) written.set("critical", fitter.fit(critical(left), left));
  return render(sections, written);
}

const needOf = (lines: readonly Line[]) => lines.reduce((sum, { text }) => sum + text.length + 4, 0);
const lengthOf = (lines: readonly string[]) => lines.reduce((sum, { length }) => sum + length + 1, 0);

function render(sections: readonly Section[], written: ReadonlyMap<Part, readonly string[]>): string {
  const content = (parts: readonly Part[]) => {
    const lines = parts.flatMap((part) => written.get(part) ?? []);
    return lines.length === 0 ? [NOTHING] : lines;
  };
  const blocks = sections.map(({ heading, parts, subheadings }) => {
    const body = subheadings
      ? parts.flatMap((part) => [`### ${SUBHEADINGS[part]}`, ...content([part])])
      : content(parts);
    return [`## ${heading}`, ...body].join("\n");
  });
  return blocks.join("\n\n");
}

interface Section {
  heading: string;
  /** In order; each in a sub-section of its own where `subheadings` says so. */
  parts: Part[];
  subheadings: boolean;
}

const SUBHEADINGS: Partial<Record<Part, string>> = {
  done: "Done",
  inProgress: "In Progress",
  blocked: "Blocked",
};

/** The sections of a summary: those the request lists, else those of its purpose. No part is given to two of them. */
function planSections(purpose: SummaryPurpose, requested: readonly string[]): Section[] {
  const headings = requested
    .map((heading) => heading.replace(/^[#\s]+/, "").trim())
    .filter((heading) => heading !== "");
  const used = new Set<Part>();
  const asked = headings.length > 0 ? [...new Set(headings)] : SUMMARY_SECTIONS[purpose];
  const sections = asked.map((heading) => ({
    heading,
    parts: [...partsOf(heading)],
    subheadings: heading === "Progress",
  }));
  // A heading that asks for one thing gets it before one that asks for several.
  for (const section of sections.toSorted((a, b) => a.parts.length - b.parts.length)) {
    section.parts = section.parts.filter((part) => !used.has(part));
    for (const part of section.parts) used.add(part);
  }
  // Listed beside "Progress", its sub-sections stand below it and not a second time.
  const progress = sections.find((section) => section.subheadings);
  if (progress === undefined) return sections;
  const names = Object.values(SUBHEADINGS);
  progress.parts = ["done", "inProgress", "blocked"];
  return sections.filter((section) => section === progress || !names.includes(section.heading));
}
