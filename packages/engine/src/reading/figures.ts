import { formatMany } from "@espalier/session-tree";

/**
 * Formats US dollars: "$0.0042", "$1.50". Sums below one dollar have four decimals, other sums and 0 have two. A sum that
 * four decimals cannot show has its first digit: "$0.00003".
 */
export function formatCost(dollars: number): string {
  if (dollars > 0 && dollars < 0.0001) return `$${dollars.toPrecision(1)}`;
  return `$${dollars.toFixed(dollars !== 0 && dollars < 1 ? 4 : 2)}`;
}

/** Formats 1536 as 1.5 kB; 1 kB is 1,000 bytes. */
export function formatBytes(bytes: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = bytes;
  let unit = 0;
  for (; size >= 1_000 && unit < units.length - 1; unit++) size /= 1_000;
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${units[unit]}`;
}

/** Formats a time span as one number and a unit, rounded down: "3 min", "5 days"; "now" below one minute. */
export function formatAge(milliseconds: number): string {
  const minutes = milliseconds / 60_000;
  if (minutes < 1) return "now";
  if (minutes < 60) return `${Math.floor(minutes)} min`;
  const hours = minutes / 60;
  if (hours < 24) return `${Math.floor(hours)} h`;
  const days = Math.floor(hours / 24);
  return days < 365 ? formatMany(days, "day") : formatMany(Math.floor(days / 365), "year");
}
