let lastAt = Number.NaN;
let last = "";

/** Now, as entries say it: ISO 8601, UTC. Made once a millisecond: writing a date costs as much as checking an entry. */
export function timestamp(): string {
  const now = Date.now();
  if (now !== lastAt) {
    lastAt = now;
    last = new Date(now).toISOString();
  }
  return last;
}
