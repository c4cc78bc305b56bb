/**
 * The size to which all larger ones are cut so that the sum falls by `excess`; the smaller ones stay whole. 0 when not
 * even leaving everything out is enough.
 */
export function commonLimit(sizes: readonly number[], excess: number): number {
  const sorted = [...sizes].sort((a, b) => b - a);
  let freed = 0;
  for (let count = 1; count <= sorted.length; count++) {
    const next = sorted[count] ?? 0;
    const step = (sorted[count - 1]! - next) * count;
    if (freed + step >= excess) return Math.floor(sorted[count - 1]! - (excess - freed) / count);
    freed += step;
  }
  return 0;
}
