import { parseHeader, type SessionHeader, SessionTreeError } from "@espalier/session-tree";
import type { Database } from "./database.ts";
import { bytesOfLine, type FetchedLine } from "./fetch-lines.ts";
import type { FoundSession } from "./found-session.ts";
import { persistently } from "./persistently.ts";
import { type ExtentRow, extentOf, sessionKey } from "./session-place.ts";

interface FoundRow extends FetchedLine, ExtentRow {
  ref: string;
  made: string;
  plain: boolean;
}

const FIND = {
  name: "espalier-find",
  text: `SELECT s.ref, s.made, s.lines, s.bytes, s.plain, head.line, head.raw FROM espalier.session s
    LEFT JOIN espalier.line head ON head.session = s.key AND head.position = 0 WHERE s.key = $1`,
};

/** Sessions that are named where one was meant. */
const NAMED = 3;

const NEAR = {
  text: `SELECT ref FROM espalier.session
    WHERE namespace = $1 AND original_of IS NULL AND ref COLLATE "C" >= $2 AND starts_with(ref, $2) ORDER BY ref LIMIT ${NAMED + 1}`,
};

/**
 * The session of a name, or the only one whose name begins so.
 * @throws SessionTreeError `not-found`
 */
export async function findSession(database: Database, namespace: string, ref: string): Promise<FoundSession> {
  const named = await sessionNamed(database, namespace, ref);
  if (named) return named;
  const near = ref === "" ? [] : await namesNear(database, namespace, ref);
  if (near.length === 1) return findSession(database, namespace, near[0]!);
  const names = near.length > NAMED ? [...near.slice(0, NAMED), "…"] : near;
  throw new SessionTreeError(
    "not-found",
    names.length > 0
      ? `Several sessions have a name that begins with ${ref}: ${names.join(", ")}; give more of it.`
      : `There is no session ${JSON.stringify(ref)} in ${database.place}; \`espalier list\` with --store shows those there are.`,
  );
}

async function namesNear(database: Database, namespace: string, ref: string): Promise<string[]> {
  const near = await persistently(database, () => database.query<{ ref: string }>(NEAR, [namespace, ref]));
  return near.map((each) => each.ref);
}

/** The session of just this name. */
export async function sessionNamed(
  database: Database,
  namespace: string,
  ref: string,
): Promise<FoundSession | undefined> {
  const [row] = await persistently(database, () =>
    database.query<FoundRow>(FIND, [sessionKey(namespace, ref)]),
  );
  return row && found(namespace, row);
}

function found(namespace: string, row: FoundRow): FoundSession {
  return {
    place: { key: sessionKey(namespace, row.ref), ref: row.ref, made: row.made },
    header: headerOf(row),
    extent: extentOf(row),
    isPlain: row.plain,
  };
}

/** The header of a session's first line. */
export function headerOf(line: FetchedLine): SessionHeader | undefined {
  if (line.line === null && line.raw === null) return undefined;
  return parseHeader(JSON.parse(new TextDecoder().decode(bytesOfLine(line))));
}
