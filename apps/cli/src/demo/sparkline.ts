const BARS = "▁▂▃▄▅▆▇█";

/** Numbers as a row of bars, at most `width` of them. */
export function sparkline(numbers: readonly number[], width: number): string {
  const count = Math.max(1, Math.min(numbers.length, width));
  const shown = Array.from(
    { length: count },
    (_, at) => numbers[Math.floor(((at + 1) * numbers.length) / count) - 1] ?? 0,
  );
  const most = shown.reduce((larger, number) => Math.max(larger, number), 1);
  return shown
    .map((number) => BARS[Math.min(BARS.length - 1, Math.floor((number / most) * BARS.length))])
    .join("");
}
