import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { chownSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { Client } from "pg";

/** A private PostgreSQL server on loopback, with its own folder, which is removed at the end. */
export interface PrivateServer {
  /** Address of its only database. No password is needed. */
  readonly url: string;
  /** Ends every connection at once and writes nothing more, like a power failure, except that the system keeps running. */
  crash(): Promise<void>;
  /** Starts the server again after a crash, with the same folder and port. */
  start(): Promise<void>;
  /** Stops the server and removes its folder. */
  remove(): Promise<void>;
}

/** Options that differ from the server's defaults. */
export interface PrivateServerOptions {
  /** Settings by name, as in `postgresql.conf`. Default: `fsync` off. */
  settings?: Record<string, string>;
}

const USER = "espalier";

/** Folders with server programs on common systems. */
const FOLDERS = ["/usr/lib/postgresql", "/usr/pgsql", "/opt/homebrew/opt/postgresql/bin", "/usr/local/bin"];

/** Returns the folder with `postgres` and `initdb`; undefined when there is none. */
export function serverPrograms(): string | undefined {
  const versions = FOLDERS.flatMap((folder) =>
    existsSync(folder) ? [folder, ...readdirSync(folder).map((version) => join(folder, version, "bin"))] : [],
  );
  const path = (process.env["PATH"] ?? "").split(":");
  return [...versions.reverse(), ...path].find(
    (folder) => existsSync(join(folder, "postgres")) && existsSync(join(folder, "initdb")),
  );
}

/** Starts a server. Rejects when its programs are not installed, or it does not answer within 60 seconds. */
export async function startPrivateServer({
  settings = {},
}: PrivateServerOptions = {}): Promise<PrivateServer> {
  const programs = serverPrograms();
  if (!programs)
    throw new Error("There is no PostgreSQL server on this machine; install Debian's `postgresql`.");
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), "espalier-postgres-"));
  const data = join(folder, "data");
  mkdirSync(data);
  const url = `postgres://${USER}@127.0.0.1:${port}/postgres`;
  const all = { fsync: "off", ...settings };
  const options = Object.entries(all).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  let running: ChildProcess | undefined;
  let identity: ReturnType<typeof ownerOf> = {};
  const prepare = () => {
    identity = ownerOf(folder, data);
    execFileSync(
      join(programs, "initdb"),
      ["-D", data, "-U", USER, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"],
      { stdio: ["ignore", "ignore", "inherit"], ...identity },
    );
  };
  const stop = async (signal: NodeJS.Signals) => {
    const child = running;
    running = undefined;
    if (!child || hasEnded(child)) return;
    const over = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    await over;
  };
  const start = async () => {
    const child = spawn(
      join(programs, "postgres"),
      [
        ...["-D", data, "-p", `${port}`, "-c", "listen_addresses=127.0.0.1"],
        ...["-c", `unix_socket_directories=${folder}`, "-c", "max_connections=200", ...options],
      ],
      { stdio: "ignore", ...identity },
    );
    running = child;
    await untilAnswering(url, child);
  };
  const remove = async () => {
    // Immediately, because the folder is removed anyway.
    await stop("SIGQUIT");
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    prepare();
    await start();
  } catch (error) {
    await remove();
    throw error;
  }
  return { url, start, crash: () => stop("SIGQUIT"), remove };
}

/** Returns the user that runs the server. PostgreSQL refuses to run as root; then its own user gets the folders. */
function ownerOf(...folders: string[]): { uid?: number; gid?: number } {
  if (process.getuid?.() !== 0) return {};
  const number = (flag: string) => Number(execFileSync("id", [flag, "postgres"], { encoding: "utf8" }));
  const [uid, gid] = [number("-u"), number("-g")];
  for (const folder of folders) chownSync(folder, uid, gid);
  return { uid, gid };
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      const port = typeof address === "object" && address !== null ? address.port : 0;
      server.close(() => resolve(port));
    });
  });
}

/** Milliseconds that a server may take to start. It may have to recover, on a busy machine. */
const START_MS = 60_000;

const hasEnded = ({ exitCode, signalCode }: ChildProcess): boolean =>
  exitCode !== null || signalCode !== null;

async function untilAnswering(url: string, child: ChildProcess): Promise<void> {
  const deadline = performance.now() + START_MS;
  for (;;) {
    const client = new Client({ connectionString: url });
    client.on("error", () => undefined);
    try {
      await client.connect();
      await client.end();
      return;
    } catch (error) {
      if (hasEnded(child)) throw new Error("The server ended by itself.", { cause: error });
      if (performance.now() > deadline) throw error;
      await setTimeout(50);
    }
  }
}
