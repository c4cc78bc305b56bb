import { isProbe, isTidy } from "./commands.ts";
import { basename, codeSpan, quote } from "./text.ts";

/** One request and the work on it. */
export type Turn = ReturnType<typeof beginTurn>;

/**
 * Returns a turn without work.
 *
 * @param request text of the user; undefined for work whose request is before the messages
 * @param at index of the first message of the turn
 */
export const beginTurn = (request: string | undefined, at: number) => ({
  request,
  at,
  /** Number of changes of each file. */
  changes: new Map<string, number>(),
  /**
   * Commands that report their success, each with the result of its last run and the subject of its commit; the newest
   * last.
   */
  runs: new Map<string, { failed: boolean; subject: string | undefined }>(),
  /** Newest prose of the agent, the number of calls with a result since then, and the subject of their newest commit. */
  lastText: "",
  callsSince: 0,
  committed: undefined as string | undefined,
  /** Newest prose that says what was found or done. */
  finding: "",
  /** True when the agent's last message has no call: its work was complete. */
  finished: false,
});

/** Returns the newest run that shows whether the work is correct, else the newest one that does more than tidy. */
function checkOf({ runs }: Turn): [string, { failed: boolean }] | undefined {
  const told = [...runs].filter(([key, { failed }]) => failed || !isTidy(key));
  return told.findLast(([key]) => !isProbe(key)) ?? told.at(-1);
}

/**
 * Returns a phrase about the check of a turn's work: a check that failed, else the subject of the newest commit, else a
 * check that succeeded; empty without a check.
 */
export function resultOf(turn: Turn): string[] {
  const [key = "", check] = checkOf(turn) ?? [];
  if (check === undefined) return [];
  if (check.failed) return [`${codeSpan(key, 50)} failed`];
  const subject = [...turn.runs.values()].findLast(
    (run) => !run.failed && run.subject !== undefined,
  )?.subject;
  return [subject === undefined ? `${codeSpan(key, 50)} succeeded` : `committed ${quote(subject, 56)}`];
}

/** Returns the names of the files that a turn changed most, at most `shown` of them, and the number of the others. */
export function changesOf(turn: Turn, shown: number): string {
  const changes = [...turn.changes].sort(([, a], [, b]) => b - a);
  const names = changes.slice(0, shown).map(([path]) => codeSpan(basename(path), 60));
  return names.join(", ") + (changes.length > shown ? ` and ${changes.length - shown} more` : "");
}
