/** Where an object or array stands in a value, for errors that name it. */
export interface Place {
  readonly container: object;
  readonly parent: Place | null;
  readonly key: string | number;
  /** 1 for the outermost. */
  readonly depth: number;
}

/** The place of a container found under `key` of `parent`; null as parent for the value itself. */
export function childOf(parent: Place | null, key: string | number, container: object): Place {
  return { container, parent, key, depth: parent === null ? 1 : parent.depth + 1 };
}

/** At most so many characters of a key path are shown, half of them from its end. */
const SHOWN = 160;

/** The key path of what stands under `key` of `parent`, as JavaScript would write it: `message.content[0].text`. */
export function showPlace(parent: Place | null, key: string | number): string {
  if (parent === null) return "The value";
  const steps = [step(key)];
  for (let place = parent; place.parent !== null; place = place.parent) steps.push(step(place.key));
  const path = steps.reverse().join("").replace(/^\./, "");
  if (path.length <= SHOWN) return path;
  // A cut may go through a character of two halves.
  return `${path.slice(0, SHOWN / 2)}…${path.slice(-SHOWN / 2)}`.toWellFormed();
}

function step(key: string | number): string {
  if (typeof key === "number") return `[${key}]`;
  return /^[A-Za-z_$][\w$]*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`;
}
