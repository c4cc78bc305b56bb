import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { EspalierError } from "@espalier/jsonl-stream";
import type { Entry, SessionStore } from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { Child, type Findings, type Harness, type HarnessOptions, say } from "../harness.ts";
import { failCall, note, openTree, passingCalls, storeNamed, writeSession } from "../stores.ts";

/** Codes of a write that is refused; no other, and none without a code. */
const REFUSALS: ReadonlySet<string> = new Set(["short-write", "write-failed", "read-only", "sync-failed"]);

/** No room, no right, no file: a typed error each time, kept entries drain in order, nothing is glued or there twice. */
export const room: Harness = {
  async run(options, findings) {
    await failingWrites(options, findings);
    await removedAndReplaced(options, findings);
    await fileSizeLimit(options, findings);
    await smallDisk(options, findings);
  },

  /** `<home> <file> <count> <size>`: appends until nothing fits, says each id or the code of the failure. */
  async child([home, file, count, size]) {
    const session = await openTree(storeNamed("file", home!), file!, "write");
    for (let n = 0; n < Number(count); n += 1) {
      try {
        const [written] = await session.append(note("x".repeat(Number(size))));
        say({ id: written!.id });
      } catch (error) {
        if (!(error instanceof EspalierError)) throw error;
        say({ code: error.code });
      }
    }
    await session.close();
  },
};

/** Each append of a session of 500 entries fails first, by an error or by half a line. */
async function failingWrites({ folder, store, isShort }: HarnessOptions, findings: Findings): Promise<void> {
  let failing: "EIO" | "EROFS" | "short" | undefined;
  const calls = passingCalls((name, call, args) =>
    name === "writeSync" && failing ? failCall(failing, name, call, args) : call(...args),
  );
  const file = writeSession(join(folder, "failing.jsonl"));
  const session = await openTree(storeNamed(store, folder, { calls }), file, "write");
  const total = isShort ? 60 : 500;
  for (let n = 0; n < total; n += 1) {
    failing = (["EIO", "short", "EROFS"] as const)[n % 3];
    const here = findings.at(`Append ${n}`);
    await refused(here, session.append(note("not kept")));
    const kept = [2 * n, 2 * n + 1].map((data) => session.append(note(data), { onFailure: "queue" }));
    await refused(here.at("behind kept ones"), session.append(note("not kept")));
    failing = undefined;
    await session.flush();
    await Promise.all(kept);
    findings.count("drained", 2);
  }
  await session.close();
  const wanted = Array.from({ length: 2 * total }, (_, n) => n);
  await judgeNotes(findings.at("After failing writes"), fileStore({ home: folder }), file, wanted);
}

async function removedAndReplaced({ folder }: HarnessOptions, findings: Findings): Promise<void> {
  const store = fileStore({ home: folder });
  const file = writeSession(join(folder, "removed.jsonl"));
  const session = await openTree(store, file, "write");
  await session.append(note(0));
  const aside = `${file}.aside`;
  for (let n = 1; n <= 20; n += 1) {
    renameSync(file, aside);
    await refused(findings.at("A removed file"), session.append(note("lost")), "removed");
    findings.expect(!existsSync(file), "A removed file came back without its header.");
    writeSession(file);
    await refused(findings.at("A replaced file"), session.append(note("lost")), "changed");
    rmSync(file);
    renameSync(aside, file);
    await session.append(note(n));
    findings.count("removed and replaced");
  }
  await session.close();
  const wanted = Array.from({ length: 21 }, (_, n) => n);
  await judgeNotes(findings.at("After removals"), store, file, wanted);
}

/** A process that may not write more than 64 KiB to a file, whether that is told by a signal or by a short count. */
async function fileSizeLimit(options: HarnessOptions, findings: Findings): Promise<void> {
  const { folder } = options;
  const file = writeSession(join(folder, "limit.jsonl"));
  // POSIX counts 512 bytes; a shell that counts 1,024 gives twice the room.
  const shell = "trap '' XFSZ; ulimit -f 128";
  const child = new Child(options, ["room", folder, file, 200, 997], { shell });
  await judgeFilling(findings, child, fileStore({ home: folder }), file, "ulimit -f");
}

/** A disk of 256 KiB that fills up, has room again, and is read-only for a while. */
async function smallDisk(options: HarnessOptions, findings: Findings): Promise<void> {
  const disk = join(options.folder, "disk");
  mkdirSync(disk);
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], { stdio: "ignore" });
  } catch {
    findings.skipped.push("No small disk: mounting a tmpfs takes the rights of root.");
    return;
  }
  try {
    const store = fileStore({ home: disk });
    const file = writeSession(join(disk, "full.jsonl"));
    const child = new Child(options, ["room", disk, file, 400, 997]);
    await judgeFilling(findings, child, store, file, "a full disk");
    rmSync(file);
    const drained = await drainOnDisk(findings.at("A full disk"), store, disk);
    await readOnlyDisk(findings.at("A read-only disk"), store, drained, disk);
  } finally {
    execFileSync("umount", ["-l", disk], { stdio: "ignore" });
  }
}

async function drainOnDisk(findings: Findings, store: SessionStore, disk: string): Promise<string> {
  const file = writeSession(join(disk, "drained.jsonl"));
  const session = await openTree(store, file, "write");
  const ballast = join(disk, "ballast");
  const wanted: string[] = [];
  for (let n = 0; n < 40; n += 1) {
    fill(ballast);
    const texts = [0, 1, 2].map((each) => `${n}-${each} ${"x".repeat(1_000)}`);
    const kept = texts.map((text) => session.append(note(text), { onFailure: "queue" }));
    wanted.push(...texts);
    await refused(findings, session.append(note("x".repeat(5_000))));
    rmSync(ballast);
    await session.flush();
    await Promise.all(kept);
    findings.count("full disk drained", 3);
  }
  await session.close();
  await judgeNotes(findings, store, file, wanted);
  return file;
}

/** The system mounts no disk read-only on which a file is open for writing, so the session is opened anew. */
async function readOnlyDisk(
  findings: Findings,
  store: SessionStore,
  file: string,
  disk: string,
): Promise<void> {
  execFileSync("mount", ["-o", "remount,ro", disk]);
  await refused(findings, store.open({ file }, "write"));
  await refused(findings.at("the lease"), store.lease({ file }));
  const before = await notesIn(store, file);
  execFileSync("mount", ["-o", "remount,rw", disk]);
  const session = await openTree(store, file, "write");
  await session.append(note("again"));
  await session.close();
  await judgeNotes(findings, store, file, [...before, "again"]);
}

function fill(path: string): void {
  for (let size = 256 * 1024; size >= 1; size = size >> 1) {
    try {
      for (;;) writeFileSync(path, "x".repeat(size), { flag: "a" });
    } catch {
      // That much does not fit any more; half of it may.
    }
  }
}

async function judgeFilling(
  findings: Findings,
  child: Child,
  store: SessionStore,
  file: string,
  what: string,
): Promise<void> {
  await child.over;
  const answers = child.lines.map((line) => JSON.parse(line) as { id?: string; code?: string });
  const session = await openTree(store, file);
  const refusals = answers.flatMap(({ code }) => code ?? []);
  findings.count(`${what}: acked`, answers.length - refusals.length);
  findings.count(`${what}: refused`, refusals.length);
  const here = findings.at(what);
  here.expect(refusals.length > 0, "nothing was refused, so nothing was tried.");
  for (const code of new Set(refusals)) here.expect(REFUSALS.has(code), `the code ${code}.`);
  for (const { id } of answers) here.expect(!id || session.tree.has(id), "an acknowledged entry is lost.");
  const glued = session.tree.issues.filter(({ kind }) => kind === "salvaged" || kind === "duplicate-id");
  here.expect(glued.length === 0, `${glued.length} entries are glued or there twice.`);
  await session.close();
}

async function refused(findings: Findings, append: Promise<unknown>, code?: string): Promise<void> {
  try {
    await append;
    findings.fault("an append was acknowledged.");
  } catch (error) {
    findings.count("refused");
    const isTyped = error instanceof EspalierError && (code ? error.code === code : REFUSALS.has(error.code));
    findings.expect(isTyped, (error as Error).message);
  }
}

async function judgeNotes(
  findings: Findings,
  store: SessionStore,
  file: string,
  wanted: readonly unknown[],
): Promise<void> {
  const found = await notesIn(store, file);
  const isSame = JSON.stringify(found) === JSON.stringify(wanted);
  findings.expect(isSame, `the file has ${found.length} notes in place of ${wanted.length}.`);
}

async function notesIn(store: SessionStore, file: string): Promise<unknown[]> {
  const session = await openTree(store, file);
  const found = [...session.tree.entries()].map((entry) => (entry as Entry & { data?: unknown }).data);
  await session.close();
  return found;
}
