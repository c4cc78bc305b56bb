import type { UsageTotals } from "@espalier/engine/reading";
import { InvalidArgumentError } from "commander";

/** 124661 as 124,661. */
export function formatCount(count: number): string {
  return count.toLocaleString("en-US");
}

/** "1 message", "914 messages". */
export function formatMany(count: number, noun: string, plural = `${noun}s`): string {
  return `${formatCount(count)} ${count === 1 ? noun : plural}`;
}

/** 2026-03-07 17:04, in the reader's time zone; empty for what is no time. */
export function formatTime(time: string | number | null | undefined): string {
  const date = new Date(time ?? Number.NaN);
  if (Number.isNaN(date.getTime())) return "";
  const two = (part: number) => String(part).padStart(2, "0");
  const day = [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join("-");
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}`;
}

/** A time span as one number and a unit: "3 min", "5 days". */
export function formatAge(milliseconds: number): string {
  const minutes = milliseconds / 60_000;
  if (minutes < 1) return "now";
  if (minutes < 60) return `${Math.floor(minutes)} min`;
  const hours = minutes / 60;
  if (hours < 24) return `${Math.floor(hours)} h`;
  const days = Math.floor(hours / 24);
  return days < 365 ? formatMany(days, "day") : formatMany(Math.floor(days / 365), "year");
}

/** 1536 as 1.5 kB; 1 kB is 1,000 bytes. */
export function formatBytes(bytes: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = bytes;
  let unit = 0;
  for (; size >= 1_000 && unit < units.length - 1; unit++) size /= 1_000;
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${units[unit]}`;
}

/** US dollars: "$0.0042", "$1.50"; small sums with the digits that count. */
export function formatCost(dollars: number): string {
  return `$${dollars.toFixed(dollars !== 0 && dollars < 1 ? 4 : 2)}`;
}

/**
 * Cost of calls: "$1.50"; "≈ $1.50" where a part of it is estimated; "> $1.50" where some calls are of unknown price;
 * "unknown" where all are; "-" without a call.
 */
export function formatBill(bill: Pick<UsageTotals, "calls" | "cost" | "estimated" | "unpriced">): string {
  const { calls, cost, estimated, unpriced } = bill;
  if (calls === 0) return "-";
  if (isUnpriced(bill)) return "unknown";
  return `${unpriced > 0 ? "> " : estimated > 0 ? "≈ " : ""}${formatCost(cost)}`;
}

/** One cost: "$1.50", "≈ $1.50" where it is estimated, "unknown", "-" for nothing. */
export function formatPrice({
  cost,
  estimated,
}: {
  cost: number | null;
  estimated: number | boolean;
}): string {
  if (cost === null) return "unknown";
  if (cost === 0) return "-";
  return `${Number(estimated) > 0 ? "≈ " : ""}${formatCost(cost)}`;
}

/** True where there are calls and nothing tells the price of any. */
export const isUnpriced = ({
  calls,
  cost,
  unpriced,
}: Pick<UsageTotals, "calls" | "cost" | "unpriced">): boolean =>
  cost === 0 && unpriced > 0 && unpriced >= calls;

/** Fields of a cost in JSON: null for an unknown one, and whether a part of it is estimated. */
export const costValue = (bill: Pick<UsageTotals, "calls" | "cost" | "estimated" | "unpriced">) => ({
  cost: isUnpriced(bill) ? null : bill.cost,
  estimated: bill.estimated > 0,
  unpriced: bill.unpriced,
});

/** US dollars where there is little room: "-", "<$0.01", "$1.50"; "?" for an unknown price. */
export function formatShortCost(dollars: number | null): string {
  if (dollars === null) return "?";
  if (dollars === 0) return "-";
  return dollars < 0.01 ? "<$0.01" : `$${dollars.toFixed(2)}`;
}

/** 1534 milliseconds as "1.5 s". */
export function formatSeconds(milliseconds: number): string {
  return `${(milliseconds / 1_000).toFixed(1)} s`;
}

/** A number of things, at least one. */
export function parseCount(text: string): number {
  const count = Number(text);
  if (Number.isInteger(count) && count > 0) return count;
  throw new InvalidArgumentError("It is a whole number above 0: 20.");
}

const SPANS = { h: 3_600_000, d: 86_400_000, w: 7 * 86_400_000, m: 30 * 86_400_000, y: 365 * 86_400_000 };

/** A time in the past: `3d` (also h, w, m, y) is that long ago, `2026-11-20` a day of the reader's time zone, or ISO 8601. */
export function parseSince(text: string): Date {
  return timeIn(text, "T00:00:00");
}

/** The same as an end: a day is meant to its last moment. */
export function parseUntil(text: string): Date {
  return timeIn(text, "T23:59:59.999");
}

function timeIn(text: string, ofDay: string): Date {
  const [, count, unit] = /^(\d+)\s*([hdwmy])$/i.exec(text.trim()) ?? [];
  if (unit) return new Date(Date.now() - Number(count) * SPANS[unit.toLowerCase() as keyof typeof SPANS]);
  const date = new Date(/^\d{4}-\d\d-\d\d$/.test(text.trim()) ? `${text.trim()}${ofDay}` : text);
  if (!Number.isNaN(date.getTime()) && /^\d{4}-/.test(text.trim())) return date;
  throw new InvalidArgumentError("It is a span or a day: 3d, 1w, 2m, or 2026-11-20.");
}
