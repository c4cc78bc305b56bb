// The shape of a line of the table: what stands in `lines/<name>.mjs`, exported as `line`.

/**
 * @typedef {object} Line
 * @property {string} name as `--only` takes it; the file's name
 * @property {string} title
 * @property {(bench: import("./bench.mjs").Bench) => Promise<Row[]>} run
 */

/**
 * @typedef {object} Row
 * @property {string} work what was done, in a few words
 * @property {string} unit of the figures: "ms", "µs", "MB", "KB", …
 * @property {Record<string, number | undefined>} figures by contender: `espalier`, `pi`, `langgraph`, `limit`, …
 * @property {Record<string, unknown>} [facts] what else was seen; it goes into results.json and not into the table
 * @property {import("./goal.mjs").Goal[]} goals
 * @property {{ x: number, [contender: string]: number }[]} [curve] for a picture
 */

export {};
