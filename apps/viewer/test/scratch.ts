import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { listSessions, openSession, searchSessions } from "@espalier/engine";
import { serveViewer, type ViewerServer, type ViewerSessions } from "@espalier/viewer";

/** The session that the demo plays with. */
export const DEMO = new URL("../../cli/assets/demo-session.jsonl", import.meta.url).pathname;

/** A folder that goes when the tests do. */
export class Scratch {
  readonly folder = mkdtempSync(join(tmpdir(), "viewer-"));
  readonly #servers: ViewerServer[] = [];

  /** A copy of a session. */
  copy(file: string, name = basename(file)): string {
    const copied = join(this.folder, name);
    copyFileSync(file, copied);
    return copied;
  }

  path(name: string): string {
    return join(this.folder, name);
  }

  /** Serves what is in the folder; the given functions take the place of the usual ones. */
  async serve(
    page: string,
    {
      write = false,
      ...own
    }: { write?: boolean } & Partial<Pick<ViewerSessions, "read" | "found" | "isFinding">> = {},
  ): Promise<ViewerServer> {
    const server = await serveViewer({ sessions: { ...sessionsIn(this.folder), ...own }, page, write });
    this.#servers.push(server);
    return server;
  }

  async end(): Promise<void> {
    for (const server of this.#servers) await server.close();
    rmSync(this.folder, { recursive: true });
  }
}

/** All sessions in a folder. */
export function sessionsIn(folder: string): ViewerSessions {
  return {
    list: (filter) => listSessions({ folder, ...filter, subAgents: true }),
    read: (ref) => openSession({ file: ref }, { mode: "read" }),
    plan: (ref) => openSession({ file: ref }, { mode: "read" }),
    write: (ref, { beside }) => openSession({ file: ref }, beside ? { lease: false } : {}),
    search: (query, { file, ...options }) => searchSessions(query, { files: [file], ...options }),
  };
}
