import { EspalierError } from "@espalier/jsonl-stream";
import fc from "fast-check";

/** Conversations in the forms in which our writers write them, and what is left of such when somebody damaged them. */

export const PNG = "iVBORw0KGgoAAAANSUhEUg==";

/** Text that no format changes: well-formed, something to read at both ends. */
export const text = fc.string({ unit: "binary", maxLength: 12 }).map((inner) => `a${inner.toWellFormed()}z`);

const key = fc.string({ maxLength: 6 }).filter((name) => name !== "__proto__");

/** Arguments as they are after a way through JSON. */
export const input = fc
  .dictionary(key, fc.jsonValue({ maxDepth: 2, stringUnit: "grapheme" }))
  .map((value) =>
    JSON.parse(JSON.stringify(value, (_name, inner) => (_name === "__proto__" ? undefined : inner))),
  );

export const mostOf = <Value>(values: fc.Arbitrary<Value>, minLength = 0) =>
  fc.array(values, { minLength, maxLength: 3, size: "max" });

/** A turn of a tool-using conversation: what the user says, what the answer says before its calls, and what they gave. */
export interface Round<Said, Answered, Call, Given> {
  said: Said[];
  answered: Answered[];
  calls: { call: Call; given: Given }[];
}

/** Rounds with unique call ids; in each somebody says something, and the last one may have calls, too. */
export function rounds<Said, Answered, Call, Given>(parts: {
  said: fc.Arbitrary<Said>;
  answered: fc.Arbitrary<Answered[]>;
  call: (id: string) => fc.Arbitrary<{ call: Call; given: Given }>;
}): fc.Arbitrary<Round<Said, Answered, Call, Given>[]> {
  const round = (number: number) =>
    fc.nat({ max: 3 }).chain((count) =>
      fc.record({
        said: mostOf(parts.said, 1),
        answered: parts.answered,
        calls: fc.tuple(...Array.from({ length: count }, (_, at) => parts.call(`call_${number}_${at}`))),
      }),
    );
  return fc
    .nat({ max: 3 })
    .chain((last) => fc.tuple(...Array.from({ length: last + 1 }, (_, at) => round(at))));
}

/** Values of every kind that JSON and JavaScript have, to be put where they do not belong. */
const garbage = fc.oneof(
  fc.anything({
    withBigInt: true,
    withDate: true,
    withMap: true,
    withSet: true,
    withTypedArray: true,
    withSparseArray: true,
  }),
  fc
    .constantFrom<unknown>(
      undefined,
      null,
      "",
      0,
      [],
      {},
      "\ud800",
      { type: "text" },
      { role: "user" },
      Symbol("odd"),
    )
    .map((value) => (typeof value === "object" ? structuredClone(value) : value)),
);

/** A copy of a value in which some of what is inside was replaced, removed or doubled. */
export function damaged(value: unknown): fc.Arbitrary<unknown> {
  return fc
    .array(fc.record({ at: fc.nat(), how: fc.constantFrom("replace", "remove", "double"), by: garbage }), {
      minLength: 1,
      maxLength: 4,
    })
    .map((wounds) => {
      const copy = { whole: structuredClone(value) as unknown };
      for (const { at, how, by } of wounds) {
        const places = placesIn(copy);
        const place = places[at % places.length];
        if (!place) break;
        const { holder, name } = place;
        const container = holder as Record<string, unknown>;
        if (how === "replace") container[name] = by;
        else if (how === "remove") delete container[name];
        else if (Array.isArray(holder)) holder.push(container[name]);
      }
      return copy.whole;
    });
}

function placesIn(root: object): { holder: object; name: string }[] {
  const places: { holder: object; name: string }[] = [];
  const open: unknown[] = [root];
  for (let holder = open.pop(); holder !== undefined; holder = open.pop()) {
    if (typeof holder !== "object" || holder === null || ArrayBuffer.isView(holder)) continue;
    for (const [name, inner] of Object.entries(holder)) {
      places.push({ holder, name });
      if (typeof inner === "object" && inner !== null) open.push(inner);
    }
    if (places.length > 500) break;
  }
  return places;
}

/** The request, or undefined where there is nothing to send. */
export function written<Request>(write: () => Request): Request | undefined {
  try {
    return write();
  } catch (error) {
    if (error instanceof EspalierError && error.code === "empty-context") return undefined;
    throw error;
  }
}
