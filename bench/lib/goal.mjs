// Rows of a line, their goals, and their results.

/**
 * A line of the table: measures, and returns rows.
 * @typedef {{ name: string, title: string, run: (bench: import("./bench.mjs").Bench) => Promise<Row[]> }} Line
 */
/**
 * @typedef {object} Row
 * @property {string} work
 * @property {string} unit
 * @property {Record<string, number | undefined>} figures by contender
 * @property {Goal[]} goals
 * @property {Record<string, number | undefined>} [facts] for later readers of the results
 * @property {Record<string, number>[]} [curve]
 */
/**
 * @typedef {object} Goal
 * @property {string} text the promise: "≥ 30 × faster than Pi"
 * @property {number | null} value the result, in the promise's own unit; null when it could not be measured
 * @property {boolean | null} holds null when it could not be measured
 * @property {boolean} [isStretch] nice to have
 */

/**
 * A row by its figures; a single figure is this project's.
 * @param {string} work
 * @param {string} unit
 * @param {Record<string, number | undefined> | number | undefined} figures
 * @param {Goal[]} [goals]
 * @param {Partial<Row>} [more]
 * @returns {Row}
 */
export const rowOf = (work, unit, figures, goals = [], more = {}) => ({
  work,
  unit,
  figures: typeof figures === "object" ? figures : { espalier: figures },
  goals,
  ...more,
});

/** @returns {Goal} */
export const atLeast = (text, value, bound) => judged(text, value, value >= bound);

/** @returns {Goal} */
export const atMost = (text, value, bound) => judged(text, value, value <= bound);

/** A goal about two times: "≥ 30 × faster than Pi". */
export const fasterThan = (who, theirs, ours, times) =>
  atLeast(`≥ ${times.toLocaleString("en")} × faster than ${who}`, ratio(theirs, ours), times);

/** A goal about two times: "≤ 2.5 × of reading and parsing those bytes". */
export const within = (what, ours, limit, times) =>
  atMost(`≤ ${times} × of ${what}`, ratio(ours, limit), times);

export const stretch = (goal) => ({ ...goal, isStretch: true });

/** Quotient of two numbers; undefined if one is missing. */
export const ratio = (a, b) => (a === undefined || b === undefined ? undefined : a / b);

const judged = (text, value, holds) =>
  value === undefined || Number.isNaN(value) ? { text, value: null, holds: null } : { text, value, holds };
