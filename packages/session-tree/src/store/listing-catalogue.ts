import { randomBytes } from "node:crypto";
import { existsSync, readFileSync, renameSync, rmSync, type Stats, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { SessionListing } from "./store.ts";

/** Listing of a file, with facts that change with any write to it, and with any other file in its place. */
interface Known {
  size: number;
  modified: number;
  changed: number;
  inode: number;
  listing: SessionListing;
}

/** Whoever reads another shape begins anew, and so whatever was told otherwise then is told anew. */
const SHAPE = 2;

/**
 * Cache of listings, in `<home>/listings.json` (mode 0600), so that the next list opens only files that
 * changed since: finding the last name and the last compaction of a session means reading all of it. Derived, and
 * nothing but faster: without it, or with one that is damaged, a list is the same.
 */
export class ListingCatalogue {
  readonly #path: string;
  readonly #known: Map<string, Known>;
  #hasChanged = false;

  constructor(home: string) {
    this.#path = join(home, "listings.json");
    this.#known = this.#read();
  }

  /** The listing of a file whose facts are the same. */
  find(path: string, facts: Stats): SessionListing | undefined {
    const known = this.#known.get(path);
    return known?.listing?.ref === path && looksLike(known, facts) ? known.listing : undefined;
  }

  set(path: string, facts: Stats, listing: SessionListing): void {
    const { size, mtimeMs: modified, ctimeMs: changed, ino: inode } = facts;
    this.#known.set(path, { size, modified, changed, inode, listing });
    this.#hasChanged = true;
  }

  /** Forgets what `isGone` says is no longer there. */
  forget(isGone: (path: string) => boolean): void {
    for (const path of this.#known.keys())
      if (isGone(path) && this.#known.delete(path)) this.#hasChanged = true;
  }

  /** Keeps what is new for the next list. Of two who do at once, one counts. */
  save(): void {
    if (!this.#hasChanged) return;
    // Of folders that are listed no more, too, nothing is kept that is gone; asked only where something is written anyway.
    this.forget((path) => !existsSync(path));
    const draft = `${this.#path}.${randomBytes(6).toString("hex")}.tmp`;
    try {
      const text = JSON.stringify({ shape: SHAPE, sessions: Object.fromEntries(this.#known) });
      writeFileSync(draft, text, { mode: 0o600, flag: "wx" });
      renameSync(draft, this.#path);
    } catch {
      // No home yet, no right to write, no room: the next list reads the files again, which is all that is lost.
      rmSync(draft, { force: true });
    }
  }

  #read(): Map<string, Known> {
    try {
      const { shape, sessions } = JSON.parse(readFileSync(this.#path, "utf8"));
      return new Map(shape === SHAPE ? Object.entries<Known>(sessions) : []);
    } catch {
      // There is none, or one that cannot be read: it is made again.
      return new Map();
    }
  }
}

function looksLike(known: Known, { size, mtimeMs, ctimeMs, ino }: Stats): boolean {
  return (
    known.size === size && known.modified === mtimeMs && known.changed === ctimeMs && known.inode === ino
  );
}
