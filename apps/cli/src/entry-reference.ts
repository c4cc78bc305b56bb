import type { ReadableSession } from "@espalier/engine";
import { EspalierError } from "@espalier/jsonl-stream";
import { labelsInForce } from "@espalier/session-tree";
import { CommandError, nearest, nearestId } from "./failure.ts";

/** Fewest characters of an id that can be given instead of the whole id. */
const SHORTEST_BEGINNING = 4;

/** The place before the first entry. */
const START = "start";

/** The entry that the session continues from. */
const LEAF = "leaf";

/**
 * The entry that somebody names: by its id, its label (`@label` or the bare label), the words `start` and `leaf`, or
 * the beginning of its id. Ids go before labels, labels before words, words before beginnings.
 * @returns null for the place before the first entry
 * @throws CommandError `ambiguous`, EspalierError `unknown-entry` (which names near ids)
 */
export function entryNamed(session: ReadableSession, reference: string): string | null {
  const { tree } = session;
  if (tree.has(reference)) return reference;
  const labelled = entriesLabelled(session, reference);
  if (labelled.length > 0) return only(labelled, reference, "are labelled");
  if (reference === START) return null;
  if (reference === LEAF) return session.leafId;
  if (reference.length >= SHORTEST_BEGINNING) {
    const beginning = new Set<string>();
    for (const id of tree.ids()) if (id.startsWith(reference)) beginning.add(id);
    if (beginning.size > 0) return only([...beginning], reference, "have an id that begins with");
  }
  const meant = nearest(reference, labelsOf(session));
  if (meant !== undefined)
    throw new EspalierError(
      "unknown-entry",
      `There is no entry ${JSON.stringify(reference)} in this session. Did you mean the label ${JSON.stringify(meant)}?`,
    );
  const near = nearestId(reference, [...tree.ids()]);
  // The tree itself names whole ids that are near.
  if (near === undefined || tree.has(near)) return tree.idAt(tree.row(reference));
  throw new EspalierError(
    "unknown-entry",
    `There is no entry ${JSON.stringify(reference)} in this session. Did you mean ${JSON.stringify(near)}?`,
  );
}

const labelsOf = ({ tree }: ReadableSession): string[] =>
  [...labelsInForce(tree).values()].map(({ label }) => label);

/** As {@link entryNamed}, but refuses the place before the first entry. */
export function existingEntry(session: ReadableSession, reference: string): string {
  const id = entryNamed(session, reference);
  if (id !== null) return id;
  throw new CommandError(
    "usage",
    `${JSON.stringify(reference)} is the place before the first entry; name an entry.`,
  );
}

function entriesLabelled({ tree }: ReadableSession, reference: string): string[] {
  const wanted = reference.startsWith("@") ? [reference, reference.slice(1)] : [reference];
  return [...labelsInForce(tree)].flatMap(([id, { label }]) =>
    wanted.includes(label) && tree.has(id) ? [id] : [],
  );
}

/** Entries that an error names. */
const NAMED = 3;

function only(ids: readonly string[], reference: string, what: string): string {
  if (ids.length === 1) return ids[0]!;
  const named = ids.slice(0, NAMED).join(", ");
  const more = ids.length > NAMED ? ", …" : "";
  throw new CommandError(
    "ambiguous",
    `${ids.length} entries ${what} ${JSON.stringify(reference)}: ${named}${more}; name one of them.`,
  );
}
