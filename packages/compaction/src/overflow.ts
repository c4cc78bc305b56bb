import {
  type CompactionEntry,
  type ContextMessage,
  compaction,
  type Entry,
  isMessage,
  type Usage,
} from "@espalier/session-tree";

/** How providers and proxies say that the body of a request had too many bytes, whatever its tokens. */
const TOO_MANY_BYTES = /request_too_large|request entity too large|payload too large/i;

/**
 * How providers say that a request was longer than the model's window. Each has words of its own and none has a code
 * for it; the list is from their documented and observed messages.
 */
const OVERFLOW_WORDS = [
  /prompt is too long/i,
  /input is too long/i,
  TOO_MANY_BYTES,
  /exceeds? (?:the )?(?:model'?s? )?(?:maximum )?context (?:length|window|size)/i,
  /maximum context length/i,
  /context[_ ]length[_ ]exceeded/i,
  /context[_ ]window[_ ]exceeded|exceeds? the (?:available )?context/i,
  /input token count.*exceeds/i,
  /maximum prompt length/i,
  /reduce the length of the (?:messages|prompt|input)/i,
  /too many (?:input )?tokens/i,
  /token limit exceeded/i,
  /too large for model with \d+ maximum context/i,
  /input length and `?max_tokens`? exceed/i,
];

/** Words that look like an overflow and are something else: another limit, another cure. */
const OTHER_WORDS = [/rate limit/i, /too many requests/i, /per (?:minute|day|hour)/i, /quota/i];

/**
 * Whether a request was too long for the model, as the answer to it tells: by the words of the error, with which the
 * status comes; by a usage above the window, whatever the answer says, since some servers cut what does not fit and go
 * on; or by an answer of no tokens that ended at the limit, where the request left no room for one. An aborted answer
 * says nothing of the kind. What follows from it is `afterAnswer` of the agent; see `docs/decisions/0013`.
 *
 * @param contextWindow of the model, in tokens
 */
export function isContextOverflow(message: ContextMessage, contextWindow: number): boolean {
  if (message.role !== "assistant" || message.stopReason === "aborted") return false;
  const { usage, stopReason, errorMessage = "" } = message;
  const sent = usage ? inputTokens(usage) : 0;
  if (sent > contextWindow) return true;
  if (stopReason === "length") return usage?.output === 0 && sent === contextWindow;
  return stopReason === "error" && isOverflowTold(errorMessage);
}

/** Whether a request was refused for its bytes, as the answer to it tells. */
export const isByteOverflow = (message: ContextMessage): boolean =>
  message.role === "assistant" &&
  message.stopReason === "error" &&
  TOO_MANY_BYTES.test(message.errorMessage ?? "");

const isOverflowTold = (words: string): boolean =>
  OVERFLOW_WORDS.some((pattern) => pattern.test(words)) &&
  !OTHER_WORDS.some((pattern) => pattern.test(words));

function inputTokens(usage: Usage): number {
  const count = (value: unknown) => (typeof value === "number" ? value : 0);
  return count(usage.input) + count(usage.cacheRead) + count(usage.cacheWrite);
}

/**
 * Where the refusals of providers name the window: after these words. The list is from their documented and observed
 * messages; each takes the limit, never the size of the request beside it.
 */
const WINDOW_WORDS = [
  /tokens? > (\d[\d,]*) maximum/i,
  /maximum context (?:length|window|size)(?: of this model)? (?:is|of) (\d[\d,]*)/i,
  /maximum prompt length is (\d[\d,]*)/i,
  /maximum number of tokens allowed \(?(\d[\d,]*)/i,
  /model with (\d[\d,]*) maximum context/i,
  /context limit: \d[\d,]* \+ \d[\d,]* > (\d[\d,]*)/i,
  /available context size \(?(\d[\d,]*)/i,
  /token count of \d[\d,]* exceeds the limit of (\d[\d,]*)/i,
];

/** A window below this is none: it is the smallest that settings take. */
const SMALLEST = 1_000;

/**
 * The window that a provider named when it refused a request as too long, in tokens; undefined for every other answer,
 * and where it named none.
 */
export function windowTold(message: ContextMessage): number | undefined {
  if (message.role !== "assistant" || message.stopReason !== "error") return undefined;
  // By its words alone: a usage names no window.
  if (!isContextOverflow(message, Number.POSITIVE_INFINITY)) return undefined;
  for (const pattern of WINDOW_WORDS) {
    const [, digits] = pattern.exec(message.errorMessage ?? "") ?? [];
    const tokens = Number(digits?.replaceAll(",", ""));
    if (Number.isSafeInteger(tokens) && tokens >= SMALLEST) return tokens;
  }
  return undefined;
}

/** Windows in tokens, by `provider/model`. */
export type LearntWindows = Readonly<Record<string, number>>;

/** A path that was looked at, as far as it went then. Paths grow at their end, and are asked about at every step. */
interface Seen {
  entries: number;
  learnt: LearntWindows;
}

const seen = new WeakMap<readonly Entry[], Seen>();

/**
 * What providers said of their windows on a path, when they refused requests as too long. Each compaction records what
 * is known by then, so the newest one and what follows it know all of it. A path that has grown costs what it has
 * grown by.
 */
export function learntWindows(path: readonly Entry[]): LearntWindows {
  let { entries, learnt } = seen.get(path) ?? { entries: 0, learnt: {} };
  if (entries > path.length) [entries, learnt] = [0, {}];
  for (; entries < path.length; entries++) learnt = learntAfter(learnt, path[entries]!);
  seen.set(path, { entries, learnt });
  return learnt;
}

/** The window that counts: what was configured, or less, where the provider said so. In tokens. */
export function windowInForce(
  contextWindow: number,
  path: readonly Entry[],
  model: { provider: string; modelId: string } | null,
): number {
  const learnt = model && learntWindows(path)[`${model.provider}/${model.modelId}`];
  return learnt ? Math.min(contextWindow, learnt) : contextWindow;
}

function learntAfter(before: LearntWindows, entry: Entry): LearntWindows {
  if (compaction.is(entry)) return recordedIn(entry);
  if (!isMessage(entry, "assistant")) return before;
  const { provider, model } = entry.message;
  const told = windowTold(entry.message);
  return told === undefined ? before : { ...before, [`${provider}/${model}`]: told };
}

function recordedIn({ details }: CompactionEntry): LearntWindows {
  const recorded = (details as { learntWindows?: LearntWindows | null } | null | undefined)?.learntWindows;
  return Object.fromEntries(
    Object.entries(recorded ?? {}).filter(([, tokens]) => Number.isSafeInteger(tokens) && tokens > 0),
  );
}
