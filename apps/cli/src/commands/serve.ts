import { existsSync, lstatSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { listSessions, openSession, searchSessions } from "@espalier/engine";
import type { ViewerSessions } from "@espalier/viewer";
import { type Command, InvalidArgumentError } from "commander";
import { CommandError } from "../failure.ts";
import { heard, storeOf, type tellSkipped, toChange } from "../opening.ts";
import { print } from "../print.ts";
import type { Shell } from "../shell.ts";
import { VIEWER_PAGE } from "../viewer-page.ts";

interface ServeCommandOptions {
  write?: boolean;
  port?: number;
}

export function addServe(program: Command, shell: Shell): void {
  program
    .command("serve [place]")
    .description(
      "show sessions in a browser of this machine, live; a folder's, one file, or Espalier's and Pi's own",
    )
    .option("--write", "let the page navigate, fork, label and compact")
    .option("--port <port>", "the port; by default one that is free", parsePort)
    .addHelpText(
      "after",
      `
The address that is printed holds a token: who has it may read these sessions. Ctrl-C ends the server.

Examples:
  espalier serve
  espalier serve ~/old-sessions --port 7777
  espalier serve session.jsonl --write`,
    )
    .action(async (place: string | undefined, options: ServeCommandOptions) => {
      if (place !== undefined && !existsSync(place))
        throw new CommandError("not-found", `There is no file or folder ${place}; check the path.`);
      if (place !== undefined) refuseOddPlace(place);
      const { serveViewer } = await import("@espalier/viewer");
      const server = await serveViewer({ ...options, sessions: sessionsAt(shell, place), page: VIEWER_PAGE });
      await print(shell, { url: server.url }, () => [server.url]);
      await shell.output.flush();
      await untilInterrupted();
      await server.close();
    });
}

/** A folder may be a link. A session's file may not: no list follows it. */
function refuseOddPlace(place: string): void {
  if (statSync(place).isDirectory() || lstatSync(place).isFile()) return;
  const problem = lstatSync(place).isSymbolicLink()
    ? "is a symbolic link, which is not followed; name the file it leads to"
    : "is neither a folder nor a session's file; name one of these";
  throw new CommandError("usage", `${place} ${problem}.`);
}

/** What is shown: a folder's sessions, the one in a file, or all there are. */
function sessionsAt(shell: Shell, place: string | undefined): ViewerSessions {
  const path = place === undefined ? undefined : resolve(place);
  const isFile = path !== undefined && statSync(path).isFile();
  const folder = path === undefined ? storeOf(shell) : { folder: isFile ? resolve(path, "..") : path };
  const where = path === undefined ? storeOf(shell) : isFile ? { files: [path] } : { folder: path };
  // Pages ask for the list again and again: each place is told once.
  const places = new Set<string>();
  const told: ReturnType<typeof tellSkipped> = {
    onSkipped(place, { message }) {
      if (!places.has(place)) shell.complain(message);
      places.add(place);
    },
  };
  return {
    async *list() {
      for await (const session of listSessions({ ...folder, ...told, subAgents: true }))
        if (!isFile || session.ref === path) yield session;
    },
    read: (ref) => openSession({ file: ref }, { ...heard(shell), mode: "read" }),
    write: (ref, { beside }) =>
      openSession({ file: ref }, { ...toChange(shell, !beside), ...(beside ? { lease: false } : {}) }),
    search: (query, signal) => searchSessions(query, { ...where, ...told, signal }),
  };
}

const untilInterrupted = (): Promise<void> =>
  new Promise((end) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => end());
  });

function parsePort(text: string): number {
  const port = Number(text);
  if (Number.isInteger(port) && port >= 0 && port < 65_536) return port;
  throw new InvalidArgumentError("It is a number from 0 to 65535: 7777.");
}
