import type { Usage } from "@espalier/session-tree";

/** All tokens of a usage: `totalTokens` where the provider gave it, else the sum of its parts. */
export function usageTokens(usage: Usage): number {
  return usage.totalTokens ?? usage.input + usage.output + usage.cacheRead + usage.cacheWrite;
}

/** The sum of two usages; undefined when neither is there. A cost is there when either had one. */
export function addUsage(first: Usage | undefined, second: Usage | undefined): Usage | undefined {
  if (!first || !second) return first ?? second;
  const sum: Usage = {
    input: first.input + second.input,
    output: first.output + second.output,
    cacheRead: first.cacheRead + second.cacheRead,
    cacheWrite: first.cacheWrite + second.cacheWrite,
    totalTokens: usageTokens(first) + usageTokens(second),
  };
  if (first.cost || second.cost) sum.cost = addCost(first.cost ?? {}, second.cost ?? {});
  return sum;
}

type Cost = NonNullable<Usage["cost"]>;

function addCost(first: Cost, second: Cost): Cost {
  const sum: Cost = {};
  for (const part of ["input", "output", "cacheRead", "cacheWrite", "total"] as const) {
    if (first[part] !== undefined || second[part] !== undefined) {
      sum[part] = (first[part] ?? 0) + (second[part] ?? 0);
    }
  }
  return sum;
}
