const whole = new Intl.NumberFormat("en");

/** `1,234`, `12.3k`, `1.23M`. */
export function formatTokens(tokens: number): string {
  if (tokens < 10_000) return whole.format(tokens);
  return tokens < 1_000_000 ? `${(tokens / 1_000).toFixed(1)}k` : `${(tokens / 1_000_000).toFixed(2)}M`;
}

/** `$0.0130`, `$1.20`; nothing for nothing. */
export function formatDollars(dollars: number): string {
  if (dollars === 0) return "";
  return dollars < 0.1 ? `$${dollars.toFixed(4)}` : `$${dollars.toFixed(2)}`;
}

export function formatBytes(bytes: number): string {
  if (bytes < 1_000) return `${bytes} bytes`;
  return bytes < 1_000_000 ? `${(bytes / 1_000).toFixed(0)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}

export const formatCount = (count: number, one: string, many = `${one}s`): string =>
  `${whole.format(count)} ${count === 1 ? one : many}`;

/** A time as people of this place write it; empty for what is no time. */
export function formatTime(timestamp: string | number): string {
  const time = new Date(timestamp);
  if (Number.isNaN(time.getTime())) return "";
  return time.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}
