/** What a source that names no prices says of them. Zeros, not a gap: readers of the session format add them up. */
export const NO_COST = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
