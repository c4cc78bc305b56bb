import {
  parseHeader,
  type SessionHeader,
  type SessionRef,
  SessionTreeError,
  sessionRef,
} from "@espalier/session-tree";
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

const FOUND = `SELECT s.ref, s.made, s.lines, s.bytes, s.plain, head.line, head.raw FROM espalier.session s
    LEFT JOIN espalier.line head ON head.session = s.key AND head.position = 0`;

const BY_NAME = { name: "espalier-find", text: `${FOUND} WHERE s.key = $1` };

/** Sessions that are named where one was meant. */
const NAMED = 3;

/** The one that is kept under its id comes first. */
const BY_ID = {
  name: "espalier-find-id",
  text: `${FOUND} WHERE s.namespace = $1 AND coalesce(s.id, s.ref) = $2 AND s.original_of IS NULL
    ORDER BY (s.ref = $2) DESC, s.ref LIMIT ${NAMED + 1}`,
};

/**
 * The session with just this id (of several, the one that is kept under it), or the one of this name.
 * @throws SessionTreeError `not-found`, `ambiguous`
 */
export async function findSession(
  database: Database,
  namespace: string,
  ref: SessionRef,
): Promise<FoundSession> {
  const asked = sessionRef(ref);
  const text = "id" in asked ? asked.id : asked.file;
  const isKey = text !== "" && !text.includes("\0");
  const found = !isKey
    ? undefined
    : "id" in asked
      ? await sessionWith(database, namespace, text)
      : await sessionNamed(database, namespace, text);
  if (found) return found;
  throw new SessionTreeError(
    "not-found",
    `There is no session ${JSON.stringify(text)} in ${database.place}; \`espalier list\` with --store shows those there are.`,
  );
}

async function sessionWith(database: Database, namespace: string, id: string) {
  const rows = await persistently(database, () => database.query<FoundRow>(BY_ID, [namespace, id]));
  const [row] = rows;
  if (rows.length <= 1 || row!.ref === id) return row && found(namespace, row);
  const names = rows.slice(0, NAMED).map(({ ref }) => ref);
  if (rows.length > NAMED) names.push("…");
  const message = `Several sessions have the id ${id}: ${names.join(" and ")}; name one of them by { file }.`;
  throw new SessionTreeError("ambiguous", message);
}

/** The session of just this name. */
export async function sessionNamed(
  database: Database,
  namespace: string,
  ref: string,
): Promise<FoundSession | undefined> {
  const [row] = await persistently(database, () =>
    database.query<FoundRow>(BY_NAME, [sessionKey(namespace, ref)]),
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
