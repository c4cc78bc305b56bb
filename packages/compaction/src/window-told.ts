import type { ContextMessage } from "@espalier/session-tree";
import { isContextOverflow } from "./context-overflow.ts";

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
