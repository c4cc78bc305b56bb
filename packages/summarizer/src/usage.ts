import type { Usage } from "@espalier/session-tree";

/**
 * All tokens of a usage: `totalTokens` where the provider gave one, else the sum of its parts. A total of 0 is none: hosts
 * fill the field in where their provider leaves it out. What is no number counts nothing: session files are read without
 * trust.
 */
export function usageTokens(usage: Usage): number {
  const total = amount(usage.totalTokens);
  if (total > 0) return total;
  return amount(usage.input) + amount(usage.output) + amount(usage.cacheRead) + amount(usage.cacheWrite);
}

/** The sum of two usages, as {@link soundUsage}; undefined when neither is there. A cost is there when either had one. */
export function addUsage(first: Usage | undefined, second: Usage | undefined): Usage | undefined {
  const only = first ?? second;
  if (!first || !second) return only && soundUsage(only);
  const sum: Usage = {
    input: amount(first.input) + amount(second.input),
    output: amount(first.output) + amount(second.output),
    cacheRead: amount(first.cacheRead) + amount(second.cacheRead),
    cacheWrite: amount(first.cacheWrite) + amount(second.cacheWrite),
    totalTokens: usageTokens(first) + usageTokens(second),
  };
  if (first.cost || second.cost) sum.cost = addCost(first.cost ?? {}, second.cost ?? {});
  return sum;
}

/**
 * A usage that a log can hold: numbers that JSON has no words for (NaN, Infinity) count nothing, and the total is that of
 * the parts where it was such a number. A usage without any is returned as it is.
 */
export function soundUsage(usage: Usage): Usage {
  const { input, output, cacheRead, cacheWrite, totalTokens, cost } = usage;
  const given = [input, output, cacheRead, cacheWrite, totalTokens, ...Object.values(cost ?? {})];
  if (given.every((value) => value === undefined || Number.isFinite(value))) return usage;
  return {
    ...usage,
    input: amount(input),
    output: amount(output),
    cacheRead: amount(cacheRead),
    cacheWrite: amount(cacheWrite),
    totalTokens: usageTokens(usage),
    ...(cost ? { cost: addCost(cost, {}) } : {}),
  };
}

/** A count as a sum takes it. */
const amount = (value: unknown): number => (typeof value === "number" && Number.isFinite(value) ? value : 0);

type Cost = NonNullable<Usage["cost"]>;

function addCost(first: Cost, second: Cost): Cost {
  const sum: Cost = {};
  for (const part of ["input", "output", "cacheRead", "cacheWrite", "total"] as const) {
    if (first[part] !== undefined || second[part] !== undefined) {
      sum[part] = amount(first[part]) + amount(second[part]);
    }
  }
  return sum;
}
