import { existsSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { espalierHome, openStore } from "@espalier/engine";
import type { SessionHeader, SessionStore } from "@espalier/session-tree";
import { fileStore, sessionFileName } from "@espalier/session-tree/node";
import { CommandError } from "./failure.ts";
import type { Shell } from "./shell.ts";

/** One end of a copy: a store, and which session in it. */
export interface CopyPlace {
  store: SessionStore;
  /** Whether it is named as files are, by paths, and ids below the home. */
  isFiles: boolean;
  /** Undefined: all sessions, or whichever the store names. */
  ref: string | undefined;
  /** What a session is called here when nobody names it; undefined leaves it to the store. */
  nameOf(header: SessionHeader): string | undefined;
}

/** How the store of `--store` is written as a place, with or without a session. */
const OF_STORE = /^store:(.*)$/s;
const DATABASE = /^postgres(ql)?:\/\//i;

/**
 * The place that a word names: `store:` or `store:ID` in the store of --store; `postgres://…` or `postgres://…#ID`; a
 * folder; a file; the id of a session in a file.
 * @throws CommandError `usage`; PostgresStoreError `address`
 */
export async function copyPlace(shell: Shell, word: string): Promise<CopyPlace> {
  const ofStore = OF_STORE.exec(word);
  if (ofStore) {
    if (!shell.store) throw new CommandError("usage", "`store:` is the store of --store; name one.");
    return inStore(shell.store, ofStore[1]!);
  }
  if (DATABASE.test(word)) {
    const [address, ref = ""] = word.split("#", 2) as [string, string?];
    const name = decoded(ref);
    return inStore(await openStore(address), name);
  }
  const home = espalierHome();
  if (!isFolder(word))
    return { store: fileStore({ home }), isFiles: true, ref: word, nameOf: () => undefined };
  const folder = resolve(word);
  return {
    store: fileStore({ home, folders: [folder] }),
    isFiles: true,
    ref: undefined,
    nameOf: (header) => join(folder, sessionFileName(header)),
  };
}

function decoded(ref: string): string {
  try {
    return decodeURIComponent(ref);
  } catch (cause) {
    const message = `#${ref} is no name of a session as addresses write it: a % in it is %25.`;
    throw new CommandError("usage", message, { cause });
  }
}

const inStore = (store: SessionStore, ref: string): CopyPlace => ({
  store,
  isFiles: false,
  ref: ref === "" ? undefined : ref,
  nameOf: () => undefined,
});

const isFolder = (path: string): boolean =>
  path.endsWith("/") || (existsSync(path) && statSync(path).isDirectory());
