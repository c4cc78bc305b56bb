import { randomBytes } from "node:crypto";
import type { AddressInfo } from "node:net";
import { createAdaptorServer } from "@hono/node-server";
import { servedPage } from "../export/viewer-page.ts";
import { OpenSessions } from "./open-sessions.ts";
import { viewerApp } from "./viewer-app.ts";
import { ViewerError } from "./viewer-error.ts";
import type { ViewerSessions } from "./viewer-sessions.ts";

export interface ServeOptions {
  sessions: ViewerSessions;
  /** The built page, a file. */
  page: string;
  /** Whether sessions may be changed. Default false. */
  write?: boolean;
  /** Default: one that is free. */
  port?: number;
}

/** A server that runs. */
export interface ViewerServer {
  /** What to open; who knows it may read all sessions that are shown. */
  url: string;
  /** The address of one session. */
  urlOf(id: string, ref: string): string;
  close(): Promise<void>;
}

/** Bytes of the token: more than anybody can guess. */
const TOKEN_BYTES = 24;

/**
 * Shows sessions to browsers of this machine.
 * @throws ViewerError `port` when it is taken, `page` when the page was not built
 */
export async function serveViewer({
  sessions,
  page,
  write = false,
  port = 0,
}: ServeOptions): Promise<ViewerServer> {
  const token = randomBytes(TOKEN_BYTES).toString("base64url");
  const open = new OpenSessions(sessions);
  const app = viewerApp({ token, sessions, open, page: await servedPage(page, write), write });
  const server = createAdaptorServer({ fetch: app.fetch, overrideGlobalObjects: false });
  await new Promise<void>((resolve, reject) => {
    const fail = (cause: Error) =>
      reject(new ViewerError("port", `Port ${port} cannot be had; choose another one.`, { cause }));
    server.once("error", fail);
    server.listen(port, "127.0.0.1", () => {
      server.off("error", fail);
      resolve();
    });
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/${token}/`;
  return {
    url,
    urlOf: (id, ref) => `${url}#/s/${encodeURIComponent(open.keyOf(id, ref))}`,
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      if ("closeAllConnections" in server) server.closeAllConnections();
      await closed;
      await open.close();
    },
  };
}
