/**
 * Keeps the best of what it is shown, in the order it was shown, in memory that does not grow with the session.
 * Among equals the newer one stays.
 */
export interface Ranking<Item> {
  add(item: Item, score: number): void;
  /** The kept items, oldest first. */
  items(): Item[];
}

export function createRanking<Item>(capacity: number): Ranking<Item> {
  let kept: { item: Item; score: number; order: number }[] = [];
  let order = 0;

  function best(): typeof kept {
    return kept
      .toSorted((a, b) => b.score - a.score || b.order - a.order)
      .slice(0, capacity)
      .sort((a, b) => a.order - b.order);
  }

  return {
    add(item, score) {
      kept.push({ item, score, order: order++ });
      if (kept.length >= capacity * 2) kept = best();
    },
    items: () => best().map(({ item }) => item),
  };
}
