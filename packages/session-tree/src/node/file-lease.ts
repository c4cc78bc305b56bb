import { randomBytes } from "node:crypto";
import { lstatSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { LeaseOptions, SessionLease } from "../session-store.ts";
import { SessionTreeError } from "../session-tree-error.ts";
import { mayBeRunning, ownIdentity, type ProcessIdentity } from "./process-identity.ts";

/** What a lease file says, as one JSON object. */
interface Lease extends ProcessIdentity {
  /** ISO 8601, UTC. */
  since: string;
  /** Tells two leases of one process apart. */
  owner: string;
  /** Whether it is held for one short act only. */
  isBrief: boolean;
}

/** Milliseconds after which a rival who neither takes the lease nor lets go of his candidate is reported as the owner. */
const RIVALS_MS = 5_000;

/**
 * Takes the lease of a session file, `<file>.lease`.
 *
 * Who wants it (1) puts a candidate of his own beside it, `<file>.lease-<12 hex digits>`, whole; (2) looks for other
 * candidates of living processes, and only if there are none (3) reads the lease; only if that has no living owner
 * (4) renames his candidate to the lease. So two never have it: of two who got to (4), say that A put his candidate
 * there first. It stands there until A's (4), so B, who looks later, either finds it and stops, or looks after A's
 * (4), and then finds A's lease in (3). Where two find each other's candidate, the one with the smaller name keeps it
 * and looks again, and the other takes his away for a moment.
 *
 * @throws SessionTreeError `busy`, `not-found`, `write-failed`
 */
export async function takeFileLease(path: string, { waitMs = 0 }: LeaseOptions = {}): Promise<SessionLease> {
  const began = performance.now();
  const waited = () => performance.now() - began;
  const owner = randomBytes(6).toString("hex");
  const lease: Lease = { ...ownIdentity(), since: new Date().toISOString(), owner, isBrief: waitMs > 0 };
  const own = `${path}.lease-${owner}`;
  let isPut = false;
  const withdraw = () => {
    remove(own);
    isPut = false;
  };
  try {
    for (;;) {
      // Once: while it stands there it is not touched, so that no listing can miss it.
      if (!isPut) putWhole(own, lease);
      isPut = true;
      const rivals = candidates(path).filter(
        (candidate) => candidate !== own && isLive(readLease(candidate)),
      );
      const holder = readLease(`${path}.lease`);
      if (isLive(holder)) {
        withdraw();
        if (!holder.isBrief || waited() >= waitMs) throw busy(path, holder);
        await pause(10);
      } else if (rivals.length === 0) {
        renameSync(own, `${path}.lease`);
        sweep(path);
        return { release: async () => release(path, owner) };
      } else {
        const [first] = rivals.map((rival) => readLease(rival)).filter((each) => each !== undefined);
        if (waited() > RIVALS_MS && first) throw busy(path, first);
        if (rivals.some((rival) => rival < own)) withdraw();
        await pause(1 + Math.random() * 4);
      }
    }
  } catch (error) {
    remove(own);
    if (error instanceof SessionTreeError) throw error;
    throw leaseError(path, error);
  }
}

/** The lease files of a session: the lease, candidates for it, and what a process left that died while it wrote one. */
export function leaseFiles(path: string): string[] {
  return [`${path}.lease`, ...candidates(path, /^[0-9a-f]{12}(?:\.tmp)?$/)];
}

function release(path: string, owner: string): void {
  // Nobody takes it from a living owner, so nothing changes between looking and removing.
  if (readLease(`${path}.lease`)?.owner === owner) remove(`${path}.lease`);
}

/** A reader sees all of it or nothing. */
function putWhole(path: string, lease: Lease): void {
  const draft = `${path}.tmp`;
  writeFileSync(draft, `${JSON.stringify(lease)}\n`, { mode: 0o600, flag: "w" });
  renameSync(draft, path);
}

function candidates(path: string, ending = /^[0-9a-f]{12}$/): string[] {
  const folder = dirname(path);
  const beginning = `${basename(path)}.lease-`;
  return readdirSync(folder)
    .filter((name) => name.startsWith(beginning) && ending.test(name.slice(beginning.length)))
    .map((name) => join(folder, name));
}

/** Undefined when there is none, or none that can be understood: what a power cut left of one has no living owner. */
function readLease(path: string): Lease | undefined {
  // A FIFO would never answer, and a link leads to something that is not ours.
  if (!lstatSync(path, { throwIfNoEntry: false })?.isFile()) return undefined;
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  try {
    const lease = JSON.parse(text) as Lease;
    return isProcessNumber(lease?.pid) && typeof lease.host === "string" ? lease : undefined;
  } catch {
    // Never written by us like this while its owner lived: see putWhole.
    return undefined;
  }
}

/** The system takes 0 and negative numbers for groups of processes, our own among them. */
const isProcessNumber = (pid: unknown): boolean => Number.isInteger(pid) && (pid as number) > 0;

function isLive(lease: Lease | undefined): lease is Lease {
  return lease !== undefined && mayBeRunning(lease);
}

/** Takes away what dead processes left while they wanted the lease. */
function sweep(path: string): void {
  for (const candidate of candidates(path)) {
    const lease = readLease(candidate);
    if (lease && !mayBeRunning(lease)) remove(candidate);
  }
}

function remove(path: string): void {
  rmSync(path, { force: true });
}

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

function busy(path: string, { pid, host, since }: Lease): SessionTreeError {
  const cure =
    host === ownIdentity().host
      ? "or end that process"
      : `or, if that machine has given it up, remove ${path}.lease`;
  const message = `${path} is being written by process ${pid} on ${host} since ${since}; read it only, fork it, share it, ${cure}.`;
  return new SessionTreeError("busy", message, { holder: { pid, host, since } });
}

function leaseError(path: string, cause: unknown): SessionTreeError {
  const { code } = cause as NodeJS.ErrnoException;
  if (code === "ENOENT")
    return new SessionTreeError("not-found", `${path} is gone, or its folder is; name one that is there.`, {
      cause,
    });
  const message = `The lease of ${path} could not be taken (${code ?? "see cause"}); make its folder writable, or share the session.`;
  return new SessionTreeError("write-failed", message, { cause });
}
