// The shape of a line of the table: what stands in `lines/<name>.mjs`, exported as `line`.
// What a line promises, and whether that holds.
// All lines, in the order of the table: those named here first, then whatever else stands in `lines/`.
import { readdirSync } from "node:fs";

/**
 * @typedef {object} Goal
 * @property {string} text what is promised: "≥ 30 × faster than Pi"
 * @property {number | null} value what came out, in the promise's own unit; null when it could not be measured
 * @property {boolean | null} holds null when it could not be measured
 * @property {boolean} [isStretch] nice to have
 */

/** @returns {Goal} */
export function atLeast(
  /** @type {string} */ text,
  /** @type {number | undefined} */ value,
  /** @type {number} */ bound,
) {
  return judged(text, value, (number) => number >= bound);
}

/** @returns {Goal} */
export function atMost(
  /** @type {string} */ text,
  /** @type {number | undefined} */ value,
  /** @type {number} */ bound,
) {
  return judged(text, value, (number) => number <= bound);
}

/** "≥ 30 × faster than Pi", of two times. @returns {Goal} */
export function fasterThan(
  /** @type {string} */ who,
  /** @type {number | undefined} */ theirs,
  /** @type {number | undefined} */ ours,
  /** @type {number} */ times,
) {
  return atLeast(`≥ ${times.toLocaleString("en")} × faster than ${who}`, ratio(theirs, ours), times);
}

/** "≤ 2.5 × of reading and parsing those bytes", of two times. @returns {Goal} */
export function within(
  /** @type {string} */ what,
  /** @type {number | undefined} */ ours,
  /** @type {number | undefined} */ limit,
  /** @type {number} */ times,
) {
  return atMost(`≤ ${times} × of ${what}`, ratio(ours, limit), times);
}

/** @returns {Goal} */
export const stretch = (/** @type {Goal} */ goal) => ({ ...goal, isStretch: true });

/** Undefined when one of the two is missing. */
export function ratio(/** @type {number | undefined} */ a, /** @type {number | undefined} */ b) {
  return a === undefined || b === undefined ? undefined : a / b;
}

function judged(
  /** @type {string} */ text,
  /** @type {number | undefined} */ value,
  /** @type {(value: number) => boolean} */ test,
) {
  return value === undefined || Number.isNaN(value)
    ? { text, value: null, holds: null }
    : { text, value, holds: test(value) };
}

const folder = new URL("../lines/", import.meta.url);

const ORDER = [
  "open",
  "no-compaction",
  "old-leaf",
  "index",
  "memory",
  "step",
  "plan",
  "append",
  "request",
  "sync",
  "fork",
  "list",
  "huge-line",
  "many-entries",
  "search",
  "deciding",
  "turns",
  "recall",
];

/** @returns {Promise<import("./line.mjs").Line[]>} */
export async function allLines(/** @type {string[] | undefined} */ only) {
  const names = readdirSync(folder)
    .filter((file) => file.endsWith(".mjs"))
    .map((file) => file.slice(0, -".mjs".length))
    .sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
  const unknown = (only ?? []).filter((name) => !names.includes(name));
  if (unknown.length > 0) {
    console.error(`There is no line ${unknown.join(", ")}; there are ${names.join(", ")}.`);
    process.exit(2);
  }
  const wanted = names.filter((name) => !only || only.includes(name));
  return Promise.all(wanted.map(async (name) => (await import(new URL(`${name}.mjs`, folder).href)).line));
}

const rank = (/** @type {string} */ name) => (ORDER.includes(name) ? ORDER.indexOf(name) : ORDER.length);
