import type { PolicyComparison } from "@espalier/engine";
import { formatCount } from "../numbers.ts";
import { plainLine } from "../plain-text.ts";
import type { Shell } from "../shell.ts";
import { viewTable } from "./view-table.ts";

const HEADINGS = ["policy", "messages", "tokens", "summarised", "kept", "calls"];

/** One table of what each policy would do with a session, for people. */
export function* viewPolicies(
  policies: readonly PolicyComparison[],
  { colours }: Pick<Shell, "colours">,
): Generator<string> {
  yield* viewTable(HEADINGS, policies.map(cellsOf), colours);
  const idle = policies.filter(({ eligible }) => !eligible);
  if (idle.length > 0) yield "";
  for (const { policy, reason } of idle) yield colours.dim(plainLine(`${policy}: ${reason}`));
}

function cellsOf(row: PolicyComparison): string[] {
  const { policy, eligible, messagesBefore, messagesAfter, tokensBefore, tokensAfter, summarised, calls } =
    row;
  const change = (before: number, after: number) =>
    eligible ? `${formatCount(before)} → ${formatCount(after)}` : formatCount(before);
  const figures = [summarised, Math.max(0, messagesAfter - 1), calls].map(formatCount);
  return [
    policy,
    change(messagesBefore, messagesAfter),
    change(tokensBefore, tokensAfter),
    ...(eligible ? figures : figures.map(() => "-")),
  ];
}
