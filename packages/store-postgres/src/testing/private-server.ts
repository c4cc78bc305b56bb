import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { chownSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { Client } from "pg";

/** A PostgreSQL server of its own: on loopback, in a folder of its own, gone when it is removed. */
export interface PrivateServer {
  /** Of its one database; who asks is let in. */
  readonly url: string;
  /** Ends every connection at once and writes nothing more, as a power cut would, but that the system lives on. */
  crash(): Promise<void>;
  /** Starts it again after a crash: same folder, same port. */
  start(): Promise<void>;
  /** Stops it and removes its folder. */
  remove(): Promise<void>;
}

/** Differences from a server's defaults. */
export interface PrivateServerOptions {
  /** Settings by name, as in `postgresql.conf`. `fsync` is off unless given here. */
  settings?: Record<string, string>;
}

const USER = "espalier";

/** Folders in which systems keep the programs of a server. */
const FOLDERS = ["/usr/lib/postgresql", "/usr/pgsql", "/opt/homebrew/opt/postgresql/bin", "/usr/local/bin"];

/** The folder with `postgres` and `initdb`; undefined where there is none. */
export function serverPrograms(): string | undefined {
  const versions = FOLDERS.flatMap((folder) =>
    existsSync(folder) ? [folder, ...readdirSync(folder).map((version) => join(folder, version, "bin"))] : [],
  );
  const path = (process.env["PATH"] ?? "").split(":");
  return [...versions.reverse(), ...path].find(
    (folder) => existsSync(join(folder, "postgres")) && existsSync(join(folder, "initdb")),
  );
}

/** Starts a server; rejects where there are no programs for it. */
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
    // Immediate: the folder goes anyway.
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

/** PostgreSQL refuses to run as root: then its own user has the folder. */
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

/** Milliseconds a server may take to start: it may have to recover, on a machine with other things to do. */
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
