/** Objects that were frozen here with all they hold; a value handed to several hooks is walked once. */
const frozen = new WeakSet<object>();

/**
 * Freezes plain objects and arrays, and what they hold, in place. Everything else stays as it is: an `AbortSignal`,
 * a `Map` or `Set`, a buffer, an instance of a class, and what stands behind a getter. Any depth will do.
 */
export function deepFreeze<Value>(value: Value): Value {
  const walked = new Set<object>();
  const open: unknown[] = [value];
  while (open.length > 0) {
    const next = open.pop();
    if (!isPlain(next) || walked.has(next) || frozen.has(next)) continue;
    walked.add(next);
    Object.freeze(next);
    for (const key of Reflect.ownKeys(next)) {
      open.push(Object.getOwnPropertyDescriptor(next, key)?.value);
    }
  }
  // Only now: a walk that met a revoked proxy has thrown, and must not count as done.
  for (const object of walked) frozen.add(object);
  return value;
}

/** An array, or an object whose prototype is null or at the root of a realm. */
function isPlain(value: unknown): value is object {
  if (typeof value !== "object" || value === null) return false;
  if (Array.isArray(value)) return true;
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}
