import { formatAge, formatCost, type UsageTotals } from "@espalier/engine/reading";
import { formatCount } from "@espalier/session-tree";
import { InvalidArgumentError } from "commander";

export { formatAge, formatBytes, formatCost } from "@espalier/engine/reading";
export { formatCount, formatMany } from "@espalier/session-tree";

/** Formats a count before and after a change: "167,066 → 61,687"; "167,066" if the second one is unknown (null). */
export const formatChange = (before: number, after: number | null): string =>
  after === null ? formatCount(before) : `${formatCount(before)} → ${formatCount(after)}`;

/** Formats a time as 2026-03-07 17:04 in the local time zone; empty for an invalid time. */
export function formatTime(time: string | number | null | undefined): string {
  const date = new Date(time ?? Number.NaN);
  if (Number.isNaN(date.getTime())) return "";
  const two = (part: number) => String(part).padStart(2, "0");
  const day = [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join("-");
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}`;
}

/** Milliseconds up to which a list shows an age; older times are shown as a date. */
const SHOWN_AGE = 7 * 86_400_000;

/** Formats a time for a list: "3 days" within a week, else "2026-03-07" in the reader's time zone. */
export function formatWhen(time: string, now: number): string {
  const age = now - Date.parse(time);
  return age < SHOWN_AGE ? formatAge(age) : formatTime(time).slice(0, DATE_LENGTH);
}

/** Length of a date without its time. */
export const DATE_LENGTH = 10;

/**
 * Formats the cost of calls: "$1.50"; "≈ $1.50" when a part is estimated; "> $1.50" when the price of some calls is
 * unknown, even if a part is estimated; "unknown" when all prices are; "-" without calls.
 */
export function formatBill(bill: Pick<UsageTotals, "calls" | "cost" | "estimated" | "unpriced">): string {
  const { calls, cost, estimated, unpriced } = bill;
  if (calls === 0) return "-";
  if (isUnpriced(bill)) return "unknown";
  return `${unpriced > 0 ? "> " : estimated > 0 ? "≈ " : ""}${formatCost(cost)}`;
}

/** Formats one cost in US dollars: "$1.50", "≈ $1.50" for an estimate, "unknown" for null, "-" for 0. */
export function formatPrice(price: { cost: number | null; estimated: number | boolean }): string {
  const { cost, estimated } = price;
  if (cost === null) return "unknown";
  if (cost === 0) return "-";
  return `${Number(estimated) > 0 ? "≈ " : ""}${formatCost(cost)}`;
}

/** Returns true when there are calls, and the price of none is known. */
export const isUnpriced = (bill: Pick<UsageTotals, "calls" | "cost" | "unpriced">): boolean =>
  bill.cost === 0 && bill.unpriced > 0 && bill.unpriced >= bill.calls;

/**
 * Cost as fields of JSON: `cost` in US dollars, null if no price is known; `estimated`, true if a part is estimated;
 * `unpriced`, the number of calls without a known price.
 */
export const costValue = (bill: Pick<UsageTotals, "calls" | "cost" | "estimated" | "unpriced">) => ({
  cost: isUnpriced(bill) ? null : bill.cost,
  estimated: bill.estimated > 0,
  unpriced: bill.unpriced,
});

/** Formats US dollars in little space: "-", "<$0.01", "$1.50"; "?" for an unknown price. */
export function formatShortCost(dollars: number | null): string {
  if (dollars === null) return "?";
  if (dollars === 0) return "-";
  return dollars < 0.01 ? "<$0.01" : `$${dollars.toFixed(2)}`;
}

/** Formats 1534 milliseconds as "1.5 s". */
export const formatSeconds = (milliseconds: number): string => `${(milliseconds / 1_000).toFixed(1)} s`;

/** Returns a parser for an option's number. Its error describes valid numbers by `expected`, with an example. */
export const numberParser =
  (isValid: (number: number) => boolean, expected: string) =>
  (text: string): number => {
    const number = Number(text);
    if (isValid(number)) return number;
    throw new InvalidArgumentError(`Expected ${expected}`);
  };

export const isWhole = (number: number, least = 0, most = Number.POSITIVE_INFINITY): boolean =>
  Number.isInteger(number) && number >= least && number <= most;

/** Parses a whole number above 0. */
export const parseCount = numberParser(
  (count) => isWhole(count, 1),
  "a whole number above 0, for example 20",
);

const SPANS = { h: 3_600_000, d: 86_400_000, w: 7 * 86_400_000, m: 30 * 86_400_000, y: 365 * 86_400_000 };

/**
 * Parses a time in the past: a span (`3d`; also h, w, m of 30 days, y of 365 days), a local day (`2026-11-20`), or ISO
 * 8601. Throws InvalidArgumentError for other text.
 */
export const parseSince = (text: string): Date => timeIn(text, "T00:00:00");

/** Parses a time like {@link parseSince}, as the end of a period: a local day means its last millisecond. */
export const parseUntil = (text: string): Date => timeIn(text, "T23:59:59.999");

function timeIn(text: string, ofDay: string): Date {
  const [, count, unit] = /^(\d+)\s*([hdwmy])$/i.exec(text.trim()) ?? [];
  if (unit) return new Date(Date.now() - Number(count) * SPANS[unit.toLowerCase() as keyof typeof SPANS]);
  const date = new Date(/^\d{4}-\d\d-\d\d$/.test(text.trim()) ? `${text.trim()}${ofDay}` : text);
  if (!Number.isNaN(date.getTime()) && /^\d{4}-/.test(text.trim())) return date;
  throw new InvalidArgumentError("Expected a time span or a day, for example 3d, 1w, 2m or 2026-11-20");
}
