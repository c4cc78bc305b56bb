const INVALID = /[^a-zA-Z0-9_-]/g;

/**
 * Gives calls ids that a provider accepts and that are unique in the request. To be asked once for each call, in
 * order: an id depends on the calls before it alone, so it stays the same however the conversation goes on.
 * A valid id that is still free is kept; else invalid characters become `_`, and `_2`, `_3`, … are tried.
 */
export function createCallIds(length: number): (id: unknown) => string {
  const taken = new Set<string>();
  const numbers = new Map<string, number>();
  return (id) => {
    const wanted = (typeof id === "string" && id.replace(INVALID, "_").slice(0, length)) || "call";
    let number = numbers.get(wanted) ?? 1;
    let free = wanted;
    while (taken.has(free)) {
      number++;
      const suffix = `_${number}`;
      free = wanted.slice(0, length - suffix.length) + suffix;
    }
    numbers.set(wanted, number);
    taken.add(free);
    return free;
  };
}

/** A tool's name as a provider accepts it. Depends on the name alone, so calls and definitions agree. */
export function validToolName(name: unknown, length: number): string {
  return (typeof name === "string" && name.replace(INVALID, "_").slice(0, length)) || "tool";
}
