import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { HISTORY_SECTIONS } from "@espalier/compaction";
import { COMPACT_SUMMARY_SECTIONS } from "@espalier/compaction/policies";
import { type CreateOptions, createSession, type Session } from "@espalier/engine";
import type { Summarizer, SummaryAnswer, SummaryRequest } from "@espalier/summarizer";

/** A file for a session, in a folder of its own. */
export const newFile = (): string => join(mkdtempSync(join(tmpdir(), "espalier-")), "session.jsonl");

/** A new session in a file, quiet, with what a test gives it. */
export function stage(options: CreateOptions = {}): Promise<Session> {
  return createSession({ file: newFile(), log: { warn: () => {}, error: () => {} }, ...options });
}

/** A summary with every section that was asked for. */
function summaryFor({ sections }: Pick<SummaryRequest, "sections">, words = "nothing"): string {
  return sections.length === 0 ? words : sections.map((section) => `## ${section}\n${words}`).join("\n\n");
}

export const HISTORY_SUMMARY = summaryFor({ sections: HISTORY_SECTIONS });
export const COMPACT_SUMMARY = summaryFor({ sections: COMPACT_SUMMARY_SECTIONS });

/** A summarizer that answers when it is told to. */
export interface HeldSummarizer extends Summarizer {
  readonly requests: SummaryRequest[];
  /** How many requests wait for an answer. */
  readonly waiting: number;
  answer(): void;
  fail(): void;
}

export function heldSummarizer(): HeldSummarizer {
  const requests: SummaryRequest[] = [];
  const waiting: { resolve: (answer: SummaryAnswer) => void; reject: (error: Error) => void }[] = [];
  return {
    name: "held",
    contextWindow: Number.POSITIVE_INFINITY,
    maxOutputTokens: 10_000,
    requests,
    get waiting() {
      return waiting.length;
    },
    summarize(request) {
      requests.push(request);
      return new Promise((resolve, reject) => waiting.push({ resolve, reject }));
    },
    answer() {
      const text = summaryFor(requests.at(-1)!);
      waiting.shift()!.resolve({ text, stopReason: "stop", model: { provider: "test", modelId: "held" } });
    },
    fail() {
      waiting.shift()!.reject(new Error("told to fail"));
    },
  };
}

/** Waits until something holds. */
export async function until(holds: () => boolean): Promise<void> {
  // By the clock, not by turns: waiting for a busy disk takes as long as it takes.
  for (const end = Date.now() + 30_000; Date.now() < end; ) {
    if (holds()) return;
    await new Promise((resolve) => setImmediate(resolve));
  }
  throw new Error(`Waited in vain until ${holds.toString()}.`);
}

/** Waits until nothing goes on in the background but what waits for a summary. */
export const settled = (session: Session, summarizer?: Pick<HeldSummarizer, "waiting">): Promise<void> =>
  until(() => !session.isConsolidating || (summarizer?.waiting ?? 0) > 0);

/** The next messages of a conversation: large ones, so that summarizing any of them is worth it. */
export async function say(session: Session, count: number, from = 0): Promise<void> {
  for (let at = from; at < from + count; at++) {
    const content = `${at === 0 ? "hi" : `message ${at}: ${"lorem ipsum ".repeat(150)}`}`;
    await session.appendMessages([{ role: at % 2 === 0 ? "user" : "assistant", content }]);
  }
}
