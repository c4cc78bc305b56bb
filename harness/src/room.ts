import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { EspalierError } from "@espalier/jsonl-stream";
import { nodeFileCalls } from "@espalier/jsonl-stream/node";
import { custom, type Entry, type NewEntry, type SessionStore, SessionTree } from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { Child } from "./children.ts";
import { Findings, type Harness, type HarnessOptions } from "./harness.ts";
import { storeNamed, writeSession } from "./stores.ts";

const note = (data: unknown): NewEntry => custom.of({ customType: "trial", data });

/** What a write may be refused with; nothing else, and nothing without a code. */
const REFUSALS: ReadonlySet<string> = new Set(["short-write", "write-failed", "read-only", "sync-failed"]);

/** No room, no right, no file: a typed error each time, what was kept drains in order, nothing is glued or there twice. */
export const room: Harness = async (options) => {
  const findings = new Findings();
  await failingWrites(options, findings);
  await removedAndReplaced(options, findings);
  await fileSizeLimit(options, findings);
  await smallDisk(options, findings);
  return findings;
};

/** Each append of a session of 500 entries fails first, by an error or by half a line. */
async function failingWrites({ folder, store, isShort }: HarnessOptions, findings: Findings): Promise<void> {
  let failing: "EIO" | "EROFS" | "short" | undefined;
  const calls = {
    ...nodeFileCalls,
    writeSync(fd: number, bytes: Uint8Array, offset: number, length: number, position: number | null) {
      if (failing && failing !== "short") throw Object.assign(new Error(failing), { code: failing });
      return nodeFileCalls.writeSync(fd, bytes, offset, failing ? length >> 1 : length, position);
    },
  };
  const file = writeSession(join(folder, "failing.jsonl"));
  const session = await SessionTree.open(await storeNamed(store, folder, { calls }).open({ file }, "write"));
  const total = isShort ? 60 : 500;
  for (let n = 0; n < total; n += 1) {
    failing = (["EIO", "short", "EROFS"] as const)[n % 3];
    await refused(findings, session.append(note("not kept")), `append ${n}`);
    const kept = [
      session.append(note(2 * n), { onFailure: "queue" }),
      session.append(note(2 * n + 1), { onFailure: "queue" }),
    ];
    await refused(findings, session.append(note("not kept")), `append ${n}, behind kept ones`);
    failing = undefined;
    await session.flush();
    await Promise.all(kept);
    findings.count("drained", 2);
  }
  await session.close();
  const said = await saidIn(fileStore({ home: folder }), file);
  const wanted = Array.from({ length: 2 * total }, (_, n) => n);
  const isOrdered = JSON.stringify(said) === JSON.stringify(wanted);
  findings.expect(
    isOrdered,
    () => `After failing writes the file says ${said.length} things in place of ${wanted.length}.`,
  );
}

async function removedAndReplaced({ folder }: HarnessOptions, findings: Findings): Promise<void> {
  const store = fileStore({ home: folder });
  const file = writeSession(join(folder, "removed.jsonl"));
  const session = await SessionTree.open(await store.open({ file }, "write"));
  await session.append(note(0));
  const aside = `${file}.aside`;
  for (let n = 1; n <= 20; n += 1) {
    renameSync(file, aside);
    await refused(findings, session.append(note("lost")), "a removed file", "removed");
    findings.expect(!existsSync(file), () => "A removed file came back without its header.");
    writeSession(file);
    await refused(findings, session.append(note("lost")), "a replaced file", "changed");
    rmSync(file);
    renameSync(aside, file);
    await session.append(note(n));
    findings.count("removed and replaced");
  }
  await session.close();
  const said = await saidIn(store, file);
  findings.expect(
    said.length === 21,
    () => `After removals the file says ${said.length} things in place of 21.`,
  );
}

/** A process that may not write more than 64 KiB to a file, whether that is told by a signal or by a short count. */
async function fileSizeLimit({ folder, program }: HarnessOptions, findings: Findings): Promise<void> {
  const file = writeSession(join(folder, "limit.jsonl"));
  // POSIX counts 512 bytes; a shell that counts 1,024 gives twice the room.
  const child = new Child(program, ["filling", folder, file, "200", "997"], {
    shell: "trap '' XFSZ; ulimit -f 128",
  });
  await child.over;
  await judgeFilling(findings, child, fileStore({ home: folder }), file, "ulimit -f");
}

/** A disk of 256 KiB that fills up, has room again, and may not be written to for a while. */
async function smallDisk({ folder, program }: HarnessOptions, findings: Findings): Promise<void> {
  const disk = join(folder, "disk");
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
    const child = new Child(program, ["filling", disk, file, "400", "997"]);
    await child.over;
    await judgeFilling(findings, child, store, file, "a full disk");
    rmSync(file);
    await drainOnDisk(findings, store, disk);
  } finally {
    execFileSync("umount", ["-l", disk], { stdio: "ignore" });
  }
}

async function drainOnDisk(findings: Findings, store: SessionStore, disk: string): Promise<void> {
  const file = writeSession(join(disk, "drained.jsonl"));
  const session = await SessionTree.open(await store.open({ file }, "write"));
  const ballast = join(disk, "ballast");
  for (let n = 0; n < 40; n += 1) {
    fill(ballast);
    const kept: Promise<Entry[]>[] = [];
    for (let each = 0; each < 3; each += 1)
      kept.push(session.append(note(`${n}-${each} ${"x".repeat(1_000)}`), { onFailure: "queue" }));
    await refused(findings, session.append(note("x".repeat(5_000))), "a full disk");
    rmSync(ballast);
    await session.flush();
    await Promise.all(kept);
    findings.count("full disk drained", 3);
  }
  await session.close();
  const said = (await saidIn(store, file)) as string[];
  const wanted = Array.from({ length: 120 }, (_, at) => `${Math.floor(at / 3)}-${at % 3}`);
  const found = said.map((text) => text.split(" ")[0]);
  findings.expect(
    JSON.stringify(found) === JSON.stringify(wanted),
    () => "A disk that was full did not drain in order.",
  );
  await readOnlyDisk(findings, store, file, disk);
}

/** The system mounts no disk read-only that a file is open on for writing, so the session is opened anew. */
async function readOnlyDisk(
  findings: Findings,
  store: SessionStore,
  file: string,
  disk: string,
): Promise<void> {
  execFileSync("mount", ["-o", "remount,ro", disk]);
  await refused(findings, store.open({ file }, "write"), "a read-only disk");
  await refused(findings, store.lease({ file }), "the lease on a read-only disk");
  const before = (await saidIn(store, file)).length;
  execFileSync("mount", ["-o", "remount,rw", disk]);
  const session = await SessionTree.open(await store.open({ file }, "write"));
  await session.append(note("again"));
  await session.close();
  const after = (await saidIn(store, file)).length;
  findings.expect(after === before + 1, () => "A disk that was read-only cannot be written again.");
}

/** Takes all the room there is. */
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
  const said = child.lines.map((line) => JSON.parse(line) as { id?: string; code?: string });
  const session = await SessionTree.open(await store.open({ file }, "read"));
  const codes = new Set(said.flatMap(({ code }) => code ?? []));
  findings.count(`${what}: acked`, said.filter(({ id }) => id).length);
  findings.count(`${what}: refused`, said.filter(({ code }) => code).length);
  findings.expect(codes.size > 0, () => `${what}: nothing was refused, so nothing was tried.`);
  for (const code of codes) findings.expect(REFUSALS.has(code), () => `${what}: the code ${code}.`);
  for (const { id } of said)
    findings.expect(!id || session.tree.has(id), () => `${what}: an acknowledged entry is lost.`);
  const glued = session.tree.issues.filter(({ kind }) => kind === "salvaged" || kind === "duplicate-id");
  findings.expect(glued.length === 0, () => `${what}: ${glued.length} entries are glued or there twice.`);
  await session.close();
}

async function refused(
  findings: Findings,
  append: Promise<unknown>,
  what: string,
  code?: string,
): Promise<void> {
  try {
    await append;
    findings.fault(`${what}: an append was acknowledged.`);
  } catch (error) {
    findings.count("refused");
    const isTyped = error instanceof EspalierError && (code ? error.code === code : REFUSALS.has(error.code));
    findings.expect(isTyped, () => `${what}: ${(error as Error).message}`);
  }
}

async function saidIn(store: SessionStore, file: string): Promise<unknown[]> {
  const session = await SessionTree.open(await store.open({ file }, "read"));
  const said = [...session.tree.entries()].map((entry) => (entry as Entry & { data?: unknown }).data);
  await session.close();
  return said;
}
