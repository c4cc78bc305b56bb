/** Events that say something of their own and are kept as state. */
export const KEPT_EVENTS: ReadonlySet<string> = new Set([
  "turn_aborted",
  "error",
  "stream_error",
  "warning",
  "entered_review_mode",
  "exited_review_mode",
]);

/** Why any other event is left out, as a sentence. */
export function reasonToLeaveOutEvent(type: string): string {
  const name = type.replace(/[^\w.-]+/g, "?").slice(0, 64);
  return `The event \`${name}\` is left out: it tells the user interface what stands in other lines.`;
}
