import { type ByteView, EspalierError } from "@espalier/jsonl-stream";
import { digestOf } from "@espalier/jsonl-stream/node";
import {
  FORMAT_VERSION,
  lineEnd,
  openIfThere,
  type SessionIssueKind,
  type SessionLease,
  type SessionLog,
  type SessionStore,
} from "@espalier/session-tree";
import { diagnose } from "../repair/diagnose.ts";
import { leaseOf } from "./stores.ts";

/** Result of copying a session. */
export interface CopyResult {
  /** Reference with which the store opens the copy. */
  file: string;
  id: string;
  bytes: number;
  /** Number of bytes that this call added; 0 when the copy was already complete. */
  written: number;
  /** SHA-256 of all bytes, in hex, computed from the finished copy. */
  sha256: string;
}

/** Approximate number of bytes of one append to a copy. */
const PIECE = 1024 * 1024;

/** Maximum wait for another program's lease of the copy, in milliseconds. */
const WAIT_MS = 2_000;

/**
 * Copies a session into a store, byte for byte. When the store has a shorter copy, because the last call was
 * interrupted or the session has grown since, only the missing bytes are added. An open session can be copied after its
 * file was removed or replaced (`removed`, `changed`).
 *
 * @param ref reference of the copy; by default the store derives it from the session's id
 * @throws EspalierError `damaged` for a session in which `diagnose` finds an issue other than a large line or file;
 * `exists` where the reference has other content; `busy`; `changed` when another program wrote the copy meanwhile;
 * `shrunk` when lines of the session are lost; errors of the stores
 */
export async function copySession(
  source: SessionLog,
  target: SessionStore,
  ref?: string,
): Promise<CopyResult> {
  await assertSound(source);
  const view = await storedBytes(source);
  const copy = await openCopy(source, view, target, ref);
  try {
    const { size } = await storedBytes(copy.log);
    for (const lines of pieces(view, size)) await copy.log.append(lines);
    await copy.log.flush();
    const sha256 = digestOf(view);
    if (digestOf(await storedBytes(copy.log)) !== sha256)
      throw new EspalierError(
        "changed",
        `${copy.log.ref} was written by another program while it was copied; copy it to another place.`,
      );
    return {
      file: copy.log.ref,
      id: source.header!.id,
      bytes: view.size,
      written: view.size - copy.before,
      sha256,
    };
  } finally {
    await releaseCopy(copy);
  }
}

/** Returns the stored bytes of a log; for an old format the original bytes, not the upgraded ones. */
async function storedBytes(log: SessionLog): Promise<ByteView> {
  const view = await log.load();
  return log.upgraded?.original ?? view;
}

/** Throws `damaged` for a damaged session: two stores may read the same damaged bytes differently. */
async function assertSound(source: SessionLog): Promise<void> {
  const { issues } = await diagnose(source);
  if (issues.every(({ kind }) => FINE.has(kind))) return;
  const { ref, header } = source;
  const isNewer = header !== undefined && header.version > FORMAT_VERSION;
  throw new EspalierError(
    "damaged",
    isNewer
      ? `${ref} has format version ${header.version}, which this program cannot check, so it is not copied; copy it with a newer version of espalier.`
      : `${ref} is damaged, so it is not copied; \`espalier doctor ${ref} --repair FILE\` writes a repaired copy, which can be copied.`,
  );
}

/** Issues of lines that are not damaged. */
const FINE: ReadonlySet<SessionIssueKind> = new Set(["large-line", "large-file"]);

async function releaseCopy({ log, lease }: { log: SessionLog; lease: SessionLease }): Promise<void> {
  try {
    await log.close();
  } finally {
    await lease.release();
  }
}

/** Opens the existing copy, or makes a new one with the first lines; `before` is the size of the existing copy. */
async function openCopy(source: SessionLog, view: ByteView, target: SessionStore, ref: string | undefined) {
  const there = await openIfThere(
    target,
    ref === undefined ? { id: source.header!.id } : { file: ref },
    "write",
  );
  if (there && (there.header?.id === source.header!.id || there.ref === ref)) {
    const lease = await leaseOf(there, target, { waitMs: WAIT_MS });
    try {
      await there.takeIn();
      const stored = await storedBytes(there);
      assertBeginning(there, stored, view);
      return { log: there, lease, before: stored.size };
    } catch (error) {
      await releaseCopy({ log: there, lease });
      throw error;
    }
  }
  await there?.close();
  const header = view.read(0, lineEnd(view, 0));
  const rest = pieces(view, header.length + 1);
  // An append would convert an old format to the current one, so all lines have to be written at once.
  const lines = source.upgraded ? flat(rest) : (rest.next().value ?? []);
  const log = await target.create(decoder.decode(header), lines, ref);
  return { log, lease: await leaseOf(log, target, { waitMs: WAIT_MS }), before: 0 };
}

/**
 * Checks that the existing content is the beginning of `view`, in whole lines.
 *
 * @throws EspalierError `exists` if it is not, or if lines are missing in a copy in an old format
 */
function assertBeginning({ ref, upgraded }: SessionLog, there: ByteView, view: ByteView): void {
  const isBeginning =
    there.size > 0 &&
    there.size <= view.size &&
    view.read(there.size - 1, 1)[0] === LINE_FEED &&
    digestOf(there) === digestOf(view, there.size);
  if (isBeginning && upgraded && there.size < view.size) {
    const message = `${ref} is an earlier copy in an old format, to which nothing can be added; delete it, or name another place for the copy.`;
    throw new EspalierError("exists", message);
  }
  if (isBeginning) return;
  const message = `${ref} is another session, or was changed since it was copied; name another place for the copy.`;
  throw new EspalierError("exists", message);
}

/** Yields the lines from an offset on, in pieces, unchanged: carriage returns and blank lines are kept. */
function* pieces(view: ByteView, from: number): Generator<string[]> {
  for (let at = from; at < view.size; ) {
    const end = lineEnd(view, Math.min(at + PIECE, view.size) - 1);
    yield decoder.decode(view.read(at, end - at)).split("\n");
    at = end + 1;
  }
}

function* flat(pieces: Iterable<string[]>): Generator<string> {
  for (const lines of pieces) yield* lines;
}

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
const LINE_FEED = 10;
