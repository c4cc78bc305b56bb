import { existsSync, rmSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { type FileCalls, nodeFileCalls } from "@espalier/jsonl-stream/node";
import { parsedHeader } from "../given-header.ts";
import { listingOf } from "../listing.ts";
import type { SessionListing, SessionLog, SessionStore, StoreListOptions } from "../session-store.ts";
import { SessionTree } from "../session-tree.ts";
import { SessionTreeError } from "../session-tree-error.ts";
import { leaseFiles, takeFileLease } from "./file-lease.ts";
import { FileLog } from "./file-log.ts";
import { ListingCatalogue } from "./listing-catalogue.ts";
import { type Processes, systemProcesses } from "./process-identity.ts";
import { idInFileName, sessionBelongings, sessionPath } from "./session-files.ts";
import { isBelow, makeFolder, refuseLinksBelow, type SessionFile, sessionFiles } from "./session-folders.ts";

/** Where the store keeps and looks for sessions. */
export interface FileStoreOptions {
  /** New sessions go to `<home>/sessions/<project key>/`, and ids are looked for below `<home>/sessions`. */
  home: string;
  /** List these folders instead, with all below them. */
  folders?: readonly string[];
  /** The calls to the file system that lines are written and read by; for tests that let them fail. */
  calls?: FileCalls;
  /** The processes among which a lease is taken; for tests that simulate several. */
  processes?: Processes;
}

/** Sessions in files, mode 0600 in folders of mode 0700. */
export function fileStore(options: FileStoreOptions): SessionStore {
  const { calls = nodeFileCalls, processes = systemProcesses } = options;
  const home = resolve(options.home);
  const own = join(home, "sessions");
  const folders = (options.folders ?? [own]).map((folder) => resolve(folder));
  const roots = [home, ...folders.filter((folder) => folder !== own)];
  const search = (how: StoreListOptions = {}) => sessionFiles(folders, { home, ...how });
  const find = (ref: string): string => {
    const path = findSession(ref, search);
    refuseLinksBelow(path, roots);
    return path;
  };
  return {
    async create(header, lines = [], ref) {
      const path = ref === undefined ? sessionPath(home, parsedHeader(header)) : resolve(ref);
      refuseLinksBelow(path, roots);
      makeFolder(dirname(path));
      return FileLog.create(path, header, lines, calls);
    },
    async open(ref, mode): Promise<SessionLog> {
      const path = find(ref);
      // What is the store's is its owner's alone; a file that lies elsewhere may be shared on purpose.
      return FileLog.open(path, mode, calls, { tighten: isBelow(path, [own]), processes });
    },
    async *list(how): AsyncGenerator<SessionListing> {
      const catalogue = new ListingCatalogue(home);
      const files = search(how);
      try {
        for (const { path, facts } of files) {
          const known = catalogue.find(path, facts);
          const listing = known ?? (await listFile(path, facts.mtimeMs, calls));
          if (listing && !known) catalogue.set(path, facts, listing);
          if (listing) yield listing;
        }
      } finally {
        const present = new Set(files.map(({ path }) => path));
        catalogue.forget((path) => !present.has(path) && isBelow(path, folders));
        catalogue.save();
      }
    },
    async lease(ref, options) {
      const path = find(ref);
      // Only what can be opened can be held; nothing is put beside a file that is no session.
      await FileLog.open(path, "read", calls).close();
      return takeFileLease(path, { ...options, calls, processes });
    },
    async delete(ref) {
      const path = find(ref);
      // Opening it says in one sentence why something that is no session file is left alone.
      const log = FileLog.open(path, "read", calls);
      await SessionTree.open(log).finally(() => log.close());
      const lease = await takeFileLease(path, { calls, processes });
      try {
        const removed = sessionBelongings(path).filter((file) => existsSync(file));
        for (const file of removed) rmSync(file, { recursive: true });
        const catalogue = new ListingCatalogue(home);
        catalogue.forget((known) => known === path);
        catalogue.save();
        return removed;
      } finally {
        await lease.release();
        for (const file of leaseFiles(path)) rmSync(file, { force: true });
      }
    },
  };
}

/** The file that a path or a session id names. */
function findSession(ref: string, search: (how: StoreListOptions) => SessionFile[]): string {
  if (existsSync(ref) || ref.includes("/") || ref.includes("\\") || ref.endsWith(".jsonl"))
    return resolve(ref);
  let unreadable: SessionTreeError | undefined;
  const onSkipped = (_folder: string, error: SessionTreeError) => {
    unreadable ??= error;
  };
  const matches = (ref === "" ? [] : search({ onSkipped })).filter(({ path }) =>
    idInFileName(path)?.startsWith(ref),
  );
  const exact = matches.find(({ path }) => idInFileName(path) === ref);
  if (exact) return exact.path;
  if (matches.length === 1) return matches[0]!.path;
  if (matches.length > 1) {
    const ids = matches.slice(0, 3).map(({ path }) => idInFileName(path));
    if (matches.length > ids.length) ids.push("…");
    throw new SessionTreeError(
      "not-found",
      `${matches.length} sessions have an id that begins with ${ref}: ${ids.join(", ")}; give more of it.`,
    );
  }
  // The session may be in the folder that cannot be read.
  if (unreadable) throw unreadable;
  throw new SessionTreeError(
    "not-found",
    `There is no file and no session ${JSON.stringify(ref)}; \`espalier list\` shows the sessions there are.`,
  );
}

/** A file that is no session, or cannot be read, is passed over: a list shows what can be opened. */
async function listFile(
  path: string,
  modified: number,
  calls?: FileCalls,
): Promise<SessionListing | undefined> {
  let log: FileLog | undefined;
  try {
    log = FileLog.open(path, "read", calls);
    const at = { ref: path, modified: new Date(modified).toISOString(), bytes: log.upgraded?.original.size };
    return listingOf(log.view, at);
  } catch (error) {
    if (error instanceof SessionTreeError) return undefined;
    throw error;
  } finally {
    await log?.close();
  }
}
