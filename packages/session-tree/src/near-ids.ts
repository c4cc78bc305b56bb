/** How many near ids an error names. */
const MOST = 3;

/** How many ids are compared at the most, so that a wrong id costs little in a very long session. */
const COMPARED = 100_000;

/** Ids that somebody may have meant: those that begin with what was given, or differ from it in one or two letters. */
export function findNear(wanted: string, ids: Iterable<string>): string[] {
  const beginning: string[] = [];
  const similar: { id: string; distance: number }[] = [];
  let compared = 0;
  for (const id of ids) {
    if (++compared > COMPARED) break;
    if (wanted.length >= 2 && id.startsWith(wanted)) beginning.push(id);
    else if (Math.abs(id.length - wanted.length) <= 2) {
      const distance = editDistance(wanted, id, 2);
      if (distance <= 2) similar.push({ id, distance });
    }
    if (beginning.length >= MOST) break;
  }
  similar.sort((a, b) => a.distance - b.distance);
  return [...beginning, ...similar.map(({ id }) => id)].slice(0, MOST);
}

/** Edit distance (insert, remove, replace), or `most + 1` as soon as it is larger than `most`. */
function editDistance(a: string, b: string, most: number): number {
  let previous = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    let best = row;
    for (let column = 1; column <= b.length; column++) {
      const replaced = previous[column - 1]! + (a[row - 1] === b[column - 1] ? 0 : 1);
      const value = Math.min(replaced, previous[column]! + 1, current[column - 1]! + 1);
      current.push(value);
      best = Math.min(best, value);
    }
    if (best > most) return most + 1;
    previous = current;
  }
  return previous[b.length]!;
}
