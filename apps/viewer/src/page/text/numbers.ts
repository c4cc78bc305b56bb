// The command line has other formats: there numbers are exact, times sort and columns are aligned. Here numbers must be
// short enough for rows and legends, and times follow the reader's locale.
const whole = new Intl.NumberFormat("en");

/** Formats tokens: `1,234`, `12.3k`, `1.23M`. */
export function formatTokens(tokens: number): string {
  if (tokens < 10_000) return whole.format(tokens);
  return tokens < 1_000_000 ? `${(tokens / 1_000).toFixed(1)}k` : `${(tokens / 1_000_000).toFixed(2)}M`;
}

/** Formats US dollars with the same digits as the command: `$0.0130`, `$1.20`; empty for 0. */
export function formatDollars(dollars: number): string {
  if (dollars === 0) return "";
  return dollars < 1 ? `$${dollars.toFixed(4)}` : `$${dollars.toFixed(2)}`;
}

/** Formats a size: `912 bytes`, `14 kB`, `2.1 MB`; 1 kB is 1,000 bytes. */
export function formatBytes(bytes: number): string {
  if (bytes < 1_000) return `${bytes} bytes`;
  return bytes < 1_000_000 ? `${(bytes / 1_000).toFixed(0)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}

export const formatCount = (count: number, one: string, many = `${one}s`): string =>
  `${whole.format(count)} ${count === 1 ? one : many}`;

/** Formats a time in the reader's locale; empty for an invalid time. */
export function formatTime(timestamp: string | number): string {
  const time = new Date(timestamp);
  if (Number.isNaN(time.getTime())) return "";
  return time.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

/** Formats a time span in milliseconds as one number and a unit: `3 min`, `5 h`, `12 days`; `now` below a minute. */
export function formatAge(milliseconds: number): string {
  const minutes = Math.floor(milliseconds / 60_000);
  if (!(minutes >= 1)) return "now";
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours} h`;
  const days = Math.floor(hours / 24);
  return days < 365 ? formatCount(days, "day") : formatCount(Math.floor(days / 365), "year");
}
