import { PostgresStoreError } from "./postgres-store-error.ts";

/** An address such as `postgres://user:password@host:5432/database?namespace=team&sslmode=verify-full`, taken apart. */
export interface StoreAddress {
  /** For the client: without what is ours. Holds the password. */
  connectionString: string;
  /** Whose sessions these are. Default `default`. */
  namespace: string;
  /** For people: without user, password and parameters. */
  place: string;
}

/** The namespace of an address that names none. */
export const DEFAULT_NAMESPACE = "default";

/** Longest name of a namespace, in characters. */
const LONGEST_NAMESPACE = 128;

/** Whether a text is the address of a database. */
export function isPostgresAddress(text: string): boolean {
  return /^postgres(ql)?:\/\//i.test(text);
}

/** @throws PostgresStoreError `address`; the message holds nothing of the address, which may hold a password */
export function parseStoreAddress(text: string): StoreAddress {
  const url = isPostgresAddress(text) && URL.canParse(text) ? new URL(text) : undefined;
  const database = url && decoded(url.pathname);
  if (!url || database === undefined) {
    throw new PostgresStoreError(
      "address",
      "The address of the database cannot be read; write postgres://user@host:5432/database, and characters such as @ or / in a password as %40 or %2F.",
    );
  }
  checkParameters(url);
  const namespace = url.searchParams.get("namespace") ?? DEFAULT_NAMESPACE;
  checkNamespace(namespace);
  url.searchParams.delete("namespace");
  // What the client makes of these anyway, but with a warning on stderr: names for less than it does.
  if (
    STRICT_ALL_THE_SAME.has(url.searchParams.get("sslmode") ?? "") &&
    !url.searchParams.has("uselibpqcompat")
  )
    url.searchParams.set("sslmode", "verify-full");
  url.hash = "";
  const host = url.host || url.searchParams.get("host") || "localhost";
  return {
    connectionString: url.href,
    namespace,
    place: `postgres://${host}${database}`,
  };
}

/** What an address may say behind `?`: ours, the client's, and limits of a connection. */
const PARAMETERS = [
  "namespace",
  ...["statement_timeout", "lock_timeout", "connect_timeout", "application_name", "options"],
  ...["sslmode", "sslrootcert", "sslcert", "sslkey", "sslnegotiation", "ssl", "uselibpqcompat"],
  ...["host", "port", "user", "password", "client_encoding"],
];

/** @throws PostgresStoreError `address` for a parameter that would have no effect, or for two of one name */
function checkParameters({ searchParams, search }: URL): void {
  const names = [...searchParams.keys()];
  const wrong = names.find((name, at) => !PARAMETERS.includes(name) || names.indexOf(name) !== at);
  if (wrong === undefined) return;
  // A ? in a password that was not escaped makes a parameter of its rest.
  const named = /[@/]/.test(search) || !/^\w{1,40}$/.test(wrong) ? "A parameter" : `The parameter ${wrong}`;
  throw new PostgresStoreError(
    "address",
    `${named} of the database's address is unknown, or is there twice; known are ${PARAMETERS.join(", ")}. A ? in a password is written %3F.`,
  );
}

/** What stands behind `%`; undefined where that is nothing. */
function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    // The cause holds what may be a password; that nothing can be read is all there is to say.
    return undefined;
  }
}

/** Modes by which PostgreSQL's own programs would take any certificate, or any name in it. */
const STRICT_ALL_THE_SAME: ReadonlySet<string> = new Set(["prefer", "require", "verify-ca"]);

/** @throws PostgresStoreError `address` */
export function checkNamespace(namespace: string): void {
  const isSound = namespace !== "" && namespace.length <= LONGEST_NAMESPACE && !/[\p{C}/]/u.test(namespace);
  if (!isSound)
    throw new PostgresStoreError(
      "address",
      `A namespace has 1 to ${LONGEST_NAMESPACE} visible characters and no slash; name another one.`,
    );
}

/** Limits that an address may set; the client would send them to the server when it connects. */
const LIMITS = ["statement_timeout", "lock_timeout", "connect_timeout"] as const;

/** An address without its limits, and these: milliseconds, for `connect_timeout` seconds. */
export function withoutLimits(connectionString: string) {
  const url = new URL(connectionString);
  const limits: Partial<Record<(typeof LIMITS)[number], number>> = {};
  for (const name of LIMITS) {
    const said = url.searchParams.get(name);
    url.searchParams.delete(name);
    if (said === null) continue;
    if (!/^\d+$/.test(said))
      throw new PostgresStoreError(
        "address",
        `${name} in the address of the database is a number (${name === "connect_timeout" ? "seconds" : "milliseconds"}), for example ${name}=30.`,
      );
    limits[name] = Number(said);
  }
  return { address: url.href, limits };
}
