import type { ReadableSession } from "@espalier/engine";
import { EspalierError } from "@espalier/jsonl-stream";
import { labelsInForce } from "@espalier/session-tree";
import { CommandError, nearest, nearestId } from "./failure.ts";

/** Minimum length of an abbreviated id. */
const SHORTEST_BEGINNING = 4;

/** Word for the position before the first entry. */
const START = "start";

/** Word for the entry that the session continues from. */
const LEAF = "leaf";

/**
 * Returns the id of the entry that a word of the user names: an id, a label (`@label` or `label`), `start`, `leaf`, or
 * the beginning of an id. When several of these match, the first in this order wins.
 * @returns null for the position before the first entry
 * @throws CommandError `ambiguous`, EspalierError `unknown-entry` (suggests similar ids)
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
  // For a whole id, the error of the tree suggests similar ids.
  if (near === undefined || tree.has(near)) return tree.idAt(tree.row(reference));
  throw new EspalierError(
    "unknown-entry",
    `There is no entry ${JSON.stringify(reference)} in this session. Did you mean ${JSON.stringify(near)}?`,
  );
}

const labelsOf = ({ tree }: ReadableSession): string[] =>
  [...labelsInForce(tree).values()].map(({ label }) => label);

/** Like {@link entryNamed}, but throws for the position before the first entry. */
export function existingEntry(session: ReadableSession, reference: string): string {
  const id = entryNamed(session, reference);
  if (id !== null) return id;
  throw new CommandError(
    "usage",
    `${JSON.stringify(reference)} is the position before the first entry; name an entry instead.`,
  );
}

function entriesLabelled({ tree }: ReadableSession, reference: string): string[] {
  const wanted = reference.startsWith("@") ? [reference, reference.slice(1)] : [reference];
  return [...labelsInForce(tree)].flatMap(([id, { label }]) =>
    wanted.includes(label) && tree.has(id) ? [id] : [],
  );
}

/** Maximum number of entries that an error lists. */
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
