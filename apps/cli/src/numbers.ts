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
