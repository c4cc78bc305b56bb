// The command line has other formats of tokens and times: there numbers are exact, times sort and columns are aligned.
// Here numbers must be short enough for rows and legends, and times follow the reader's locale.
import { formatAge } from "@espalier/engine/reading";
import { formatCount } from "@espalier/session-tree";

export { formatBytes } from "@espalier/engine/reading";
export { formatMany } from "@espalier/session-tree";

/** Formats a number of tokens: `1,234`, `12.3k`, `1.23M`, `4.15B`. */
export function formatTokens(tokens: number): string {
  if (tokens < 10_000) return formatCount(tokens);
  if (tokens < 1_000_000) return `${(tokens / 1_000).toFixed(1)}k`;
  return tokens < 1e9 ? `${(tokens / 1_000_000).toFixed(2)}M` : `${(tokens / 1e9).toFixed(2)}B`;
}

const cents = new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });

/** Formats US dollars: `$0.0130`, `$1,308.35`; empty for 0. */
export function formatDollars(dollars: number): string {
  if (dollars === 0) return "";
  return dollars < 1 ? `$${dollars.toFixed(4)}` : `$${cents.format(dollars)}`;
}

/** Formats a cost like {@link formatDollars}, with `≈` if a part of it is estimated. */
export const formatBill = ({ cost, estimated }: { cost: number; estimated: number }): string =>
  `${estimated > 0 ? "≈ " : ""}${formatDollars(cost)}`;

/** Formats a time in the reader's locale; empty for an invalid time. */
export function formatTime(timestamp: string | number): string {
  const time = new Date(timestamp);
  if (Number.isNaN(time.getTime())) return "";
  return time.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

/** Maximum age in milliseconds that a list shows; older times are shown as a date. */
const SHOWN_AGE = 7 * 86_400_000;

/** Formats a time for a list: `now`, `3 min ago`, `5 h ago`, `2 days ago`; after a week the date. Empty for an invalid time. */
export function formatWhen(timestamp: string): string {
  const time = new Date(timestamp);
  const age = Date.now() - time.getTime();
  if (Number.isNaN(age)) return "";
  if (age >= SHOWN_AGE) return time.toLocaleDateString(undefined, { dateStyle: "medium" });
  return age < 60_000 ? formatAge(age) : `${formatAge(age)} ago`;
}
