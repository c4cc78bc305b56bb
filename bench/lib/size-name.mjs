/** 1,000 as 1k, 1,000,000 as 1M. */
export function sizeName(/** @type {number} */ count) {
  if (count >= 1_000_000) return `${count / 1_000_000}M`;
  return count >= 1_000 ? `${count / 1_000}k` : `${count}`;
}
