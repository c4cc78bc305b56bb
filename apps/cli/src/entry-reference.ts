import type { ListedSession } from "@espalier/engine";
import type { ReadableSession } from "@espalier/engine/reading";
import { EspalierError } from "@espalier/jsonl-stream";
import { labelsInForce, type Tree } from "@espalier/session-tree";
import { CommandError, nearest, nearestId, SHORTEST_BEGINNING } from "./failure.ts";
import { equalStart, plainLine } from "./text.ts";

/** Maximum length of an id that is printed whole. */
const WHOLE = 12;

/** Minimum number of printed characters of a longer id. */
const SHORTEST_PRINTED = 8;

/**
 * Returns a function that shortens ids for people: ids of up to 12 characters stay whole, longer ones become their
 * shortest beginning, of at least 8 characters, that no other id has. Unknown ids are cut to 12 characters.
 */
export function shortIds(ids: Iterable<string>): (id: string) => string {
  const alike = new Map<string, string[]>();
  for (const id of new Set(ids)) {
    const beginning = id.slice(0, SHORTEST_PRINTED);
    const group = alike.get(beginning);
    if (group) group.push(id);
    else alike.set(beginning, [id]);
  }
  const shortened = new Map<string, string>();
  return (id) => {
    if (id.length <= WHOLE) return id;
    if (!shortened.has(id)) {
      const group = (alike.get(id.slice(0, SHORTEST_PRINTED)) ?? []).sort();
      group.forEach((each, at) => {
        const equal = Math.max(equalStart(each, group[at - 1]), equalStart(each, group[at + 1]));
        shortened.set(each, each.slice(0, Math.max(SHORTEST_PRINTED, equal + 1)));
      });
    }
    return shortened.get(id) ?? id.slice(0, WHOLE);
  };
}

const namesOfTrees = new WeakMap<Tree, { length: number; short: (id: string) => string }>();

/** Shortens the id of an entry as {@link shortIds} does, among the entries of its session. */
export function entryName(tree: Tree, id: string): string {
  if (id.length <= WHOLE) return id;
  let names = namesOfTrees.get(tree);
  if (names?.length !== tree.length) {
    names = { length: tree.length, short: shortIds(tree.ids()) };
    namesOfTrees.set(tree, names);
  }
  return names.short(id);
}

/**
 * Returns a function that shortens ids of sessions, as {@link shortIds} does. The id of a sub-agent's run has the id of its
 * session before the first point; both parts are shortened: `22222222.agent-a0`.
 */
export function shortSessionIds(ids: readonly string[]): (id: string) => string {
  const short = shortIds(ids.map((id) => partsOf(id)[0]));
  const runs = new Map<string, string[]>();
  for (const [session, run] of ids.map(partsOf))
    if (run !== "") runs.set(session, [...(runs.get(session) ?? []), run]);
  const shortRuns = new Map([...runs].map(([session, all]) => [session, shortIds(all)]));
  return (id) => {
    const [session, run] = partsOf(id);
    return run === "" ? short(session) : `${short(session)}.${shortRuns.get(session)?.(run) ?? run}`;
  };
}

/**
 * Prefix for a title: `└ ` for a sub-agent, `fork of 1284c080: ` for a fork; else empty. `short` shortens the id of the
 * parent; default: as {@link shortSessionIds} does for this id alone.
 */
export const markOfParent = (
  parent: ListedSession["parent"],
  short = (id: string) => shortSessionIds([id])(id),
): string =>
  !parent ? "" : parent.kind === "subagent" ? "└ " : `fork of ${plainLine(short(parent.sessionId))}: `;

/** Returns whether a word abbreviates the id of a session: its beginning, or the short form of a sub-agent's run. */
export function isShortFor(word: string, id: string): boolean {
  if (id.startsWith(word)) return true;
  const [session, run] = partsOf(word);
  const [ofSession, ofRun] = partsOf(id);
  return run !== "" && session !== "" && ofSession.startsWith(session) && ofRun.startsWith(run);
}

/** Splits an id at its first point: the id of a session, and the rest of the id of a sub-agent's run. */
function partsOf(id: string): [session: string, run: string] {
  const point = id.indexOf(".");
  return point < 0 ? [id, ""] : [id.slice(0, point), id.slice(point + 1)];
}

/** Word for the position before the first entry. */
const START = "start";

/** Word for the entry that the session continues from. */
const LEAF = "leaf";

/**
 * Returns the id of the entry that a word of the user names: an id, `start`, `leaf`, a label (`@label` or `label`), or
 * the beginning of an id (at least 4 characters). The first of these that matches, in this order, is used.
 * @returns null for the position before the first entry
 * @throws CommandError `ambiguous` if several entries match; EspalierError `unknown-entry` (suggests a similar label or
 * id) if none does
 */
export function entryNamed(session: ReadableSession, reference: string): string | null {
  const { tree } = session;
  const { ids, what } = entriesNamed(session, reference);
  if (ids.length === 1) return ids[0]!;
  if (ids.length > 1) throw ambiguous(ids as string[], reference, what);
  const labels = [...labelsInForce(tree).values()].map(({ label }) => label);
  const label = nearest(reference, labels);
  const id = nearestId(reference, [...tree.ids()]);
  // For a whole id, the error of the tree suggests similar ids.
  if (label === undefined && (id === undefined || tree.has(id))) return tree.idAt(tree.row(reference));
  const meant = label === undefined ? JSON.stringify(id) : `the label ${JSON.stringify(label)}`;
  throw new EspalierError(
    "unknown-entry",
    `There is no entry ${JSON.stringify(reference)} in this session. Did you mean ${meant}?`,
  );
}

/** Like {@link entryNamed}, but throws CommandError `usage` for the position before the first entry. */
export function existingEntry(session: ReadableSession, reference: string): string {
  return existing(entryNamed(session, reference), reference);
}

/** Returns an id unchanged. @throws CommandError `usage` for `null`, the position before the first entry */
export function existing(id: string | null, reference: string): string {
  if (id !== null) return id;
  throw new CommandError(
    "usage",
    `${JSON.stringify(reference)} is the position before the first entry; name an entry instead.`,
  );
}

/**
 * Returns all entries that a reference can name, by the first rule of {@link entryNamed} that finds any, and a phrase
 * for that rule, such as `have the id`. An id is null for the position before the first entry; no ids if no rule finds
 * any.
 *
 * @param shortest minimum length of an abbreviated id; default 4
 */
export function entriesNamed(
  session: ReadableSession,
  reference: string,
  shortest = SHORTEST_BEGINNING,
): { ids: readonly (string | null)[]; what: string } {
  const { tree } = session;
  if (tree.has(reference)) return { ids: [reference], what: "have the id" };
  // An entry that is labelled with one of these words is named by its id, or with `@` before the label.
  if (reference === START) return { ids: [null], what: "" };
  if (reference === LEAF) return { ids: [session.leafId], what: "" };
  const wanted = reference.startsWith("@") ? [reference, reference.slice(1)] : [reference];
  const labelled = [...labelsInForce(tree)].flatMap(([id, { label }]) =>
    wanted.includes(label) && tree.has(id) ? [id] : [],
  );
  if (labelled.length > 0) return { ids: labelled, what: "are labelled" };
  const beginning = new Set<string>();
  if (reference.length >= shortest)
    for (const id of tree.ids()) if (id.startsWith(reference)) beginning.add(id);
  return { ids: [...beginning], what: "have an id that begins with" };
}

/** Maximum number of entries that an error lists. */
const NAMED = 3;

function ambiguous(ids: readonly string[], reference: string, what: string): CommandError {
  const named = ids.slice(0, NAMED).join(", ");
  const more = ids.length > NAMED ? ", …" : "";
  return new CommandError(
    "ambiguous",
    `${ids.length} entries ${what} ${JSON.stringify(reference)}: ${named}${more}; name one of them.`,
  );
}
