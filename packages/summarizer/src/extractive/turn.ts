import { stringCount } from "./exact-string.ts";
import { isResult } from "./markers.ts";
import type { Outcome } from "./outcome.ts";
import { splitSentences } from "./sentences.ts";
import type { CallDescription } from "./tool-call.ts";

/** One request and what was done about it. */
export interface Turn {
  /** The user's words; undefined for work whose request stands before the messages. */
  request: string | undefined;
  /** The message it began at. */
  at: number;
  /** How often each file was changed. */
  changes: Map<string, number>;
  /** Commands that report their own success, and whether their last run failed. */
  runs: Map<string, { line: string; failed: boolean }>;
  calls: number;
  /** The newest prose of the agent. */
  lastText: string;
  /** True when the agent's last message asked for no tool: it had nothing more to do. */
  finished: boolean;
}

/** Different files and commands remembered of one turn. */
const REMEMBERED = 50;

export function beginTurn(request: string | undefined, at: number): Turn {
  return { request, at, changes: new Map(), runs: new Map(), calls: 0, lastText: "", finished: false };
}

/** Notes in a turn what a call came to. */
export function recordInTurn(turn: Turn, call: CallDescription, outcome: Outcome): void {
  turn.calls++;
  if (call.purpose !== "read" && call.purpose !== "other" && !outcome.failed) {
    for (const path of call.paths) {
      if (turn.changes.size < REMEMBERED || turn.changes.has(path))
        turn.changes.set(path, (turn.changes.get(path) ?? 0) + 1);
    }
  }
  const { command } = call;
  if (command === undefined || command.reads || command.key === "") return;
  // Set anew, so that the newest run stands last.
  turn.runs.delete(command.key);
  if (turn.runs.size < REMEMBERED) turn.runs.set(command.key, { line: command.line, failed: outcome.failed });
}

/** How much there is to tell of a turn. */
export function turnWeight(turn: Turn): number {
  let edits = 0;
  for (const count of turn.changes.values()) edits += count;
  return Math.log1p(2 * edits + turn.runs.size + 0.2 * turn.calls) + (turn.request === undefined ? 0 : 0.5);
}

const FILLERS =
  /^(?:perfect|great|excellent|done|sure|ok(?:ay)?|got it|you['’]re (?:absolutely )?right|ah|yes|no|i see|all set|fixed)\b[^.!:]{0,24}[.!]?$/i;

/** The sentence of an answer that tells most: early, with names in it, in words of something done. */
export function conclusionOf(text: string): string | undefined {
  let best: { sentence: string; score: number } | undefined;
  for (const [index, sentence] of splitSentences(text).slice(0, 40).entries()) {
    if (sentence.length < 12 || /[:?]$/.test(sentence) || FILLERS.test(sentence)) continue;
    const score =
      1 - 0.06 * index + 0.25 * Math.min(stringCount(sentence), 3) + (isResult(sentence) ? 0.5 : 0);
    if (best === undefined || score > best.score) best = { sentence, score };
  }
  return best?.sentence;
}
