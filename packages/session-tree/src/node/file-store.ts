import { existsSync, rmSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { JsonlError } from "@espalier/jsonl-stream";
import { type FileCalls, nodeFileCalls, openView } from "@espalier/jsonl-stream/node";
import { firstHeader } from "../first-header.ts";
import { parsedHeader } from "../given-header.ts";
import { listingOf } from "../listing.ts";
import { sessionRef } from "../session-ref.ts";
import type {
  SessionListing,
  SessionLog,
  SessionRef,
  SessionStore,
  StoreListOptions,
} from "../session-store.ts";
import { SessionTree } from "../session-tree.ts";
import { SessionTreeError } from "../session-tree-error.ts";
import { leaseFiles, takeFileLease } from "./file-lease.ts";
import { FileLog } from "./file-log.ts";
import { ListingCatalogue } from "./listing-catalogue.ts";
import { type Processes, systemProcesses } from "./process-identity.ts";
import { sessionBelongings, sessionPath } from "./session-files.ts";
import { isBelow, makeFolder, refuseLinksBelow, sessionFiles } from "./session-folders.ts";
import { SessionIds } from "./session-ids.ts";

/** Where the store keeps and looks for sessions. */
export interface FileStoreOptions {
  /** New sessions go to `<home>/sessions/<project key>/`; ids are those of the files below `<home>/sessions`. */
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
  const ids = new SessionIds(home, idInHeader, processes);
  const find = (ref: SessionRef): string => {
    const asked = sessionRef(ref);
    if ("file" in asked && asked.file === "")
      throw new SessionTreeError(
        "not-found",
        "The path of the session's file is empty; name one that is there.",
      );
    const path = "id" in asked ? ids.find(asked.id) : resolve(asked.file);
    refuseLinksBelow(path, roots);
    return path;
  };
  return {
    async create(header, lines = [], ref) {
      const parsed = parsedHeader(header);
      const path = ref === undefined ? sessionPath(home, parsed) : resolve(ref);
      refuseLinksBelow(path, roots);
      makeFolder(dirname(path), calls);
      const make = () => FileLog.create(path, header, lines, calls);
      return ref === undefined ? ids.create(parsed.id, path, make) : make();
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
      const id = log.header?.id;
      await SessionTree.open(log).finally(() => log.close());
      const lease = await takeFileLease(path, { calls, processes });
      try {
        const removed = sessionBelongings(path).filter((file) => existsSync(file));
        for (const file of removed) rmSync(file, { recursive: true });
        if (id !== undefined) ids.forget(id);
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

/** The id that a file says it has; undefined for one that is gone, or is no session. */
function idInHeader(path: string): string | undefined {
  try {
    const view = openView(path);
    try {
      return firstHeader(view)?.id;
    } finally {
      view.close();
    }
  } catch (error) {
    // As for a list: what cannot be opened has no id.
    if (error instanceof JsonlError) return undefined;
    throw error;
  }
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
