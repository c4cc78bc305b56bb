// Files that are made to hurt, and places that cannot be read: each costs itself, and is named.
import { execFileSync, spawnSync } from "node:child_process";
import {
  closeSync,
  mkdirSync,
  openSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { answer, user } from "./claude-code-lines.ts";
import { message, OTHER, Rollout, rolloutName, THREAD } from "./codex-lines.ts";
import {
  importAll,
  opened,
  scratchFolder,
  scratchStore,
  writeLines,
  writeRollout,
  writeSession,
} from "./import-scratch.ts";

const good = [user("u1", null), answer("a1", "u1")];

/** A folder with one good session, to which a test adds what is not. */
function folderWithSession(): string {
  const folder = scratchFolder();
  writeSession(good, folder);
  return folder;
}

/** What an import of a folder says of each file, the good session first. */
async function toldOf(what: string) {
  const reports = await importAll(what, scratchStore());
  return reports
    .map(({ source, status, issues }) => ({ source, status, problem: issues[0]?.message ?? "" }))
    .sort((a, b) => (a.status < b.status ? -1 : 1));
}

const hasZstd = spawnSync("zstd", ["--version"]).status === 0;
const whyNoZstd = hasZstd ? "" : " (skipped: the command zstd is not there)";

describe("a compressed file", () => {
  const bomb = (folder: string, megabytes: number): string => {
    const path = join(folder, `${rolloutName()}.zst`);
    execFileSync("sh", ["-c", `head -c ${megabytes}M /dev/zero | zstd -q -o "${path}"`]);
    return path;
  };

  test.skipIf(!hasZstd)(
    `that grows to thousands of times its size is reported, and other files are imported${whyNoZstd}`,
    async () => {
      const folder = folderWithSession();
      const path = bomb(folder, 1_000);
      const [session, refused] = await toldOf(folder);
      expect(session).toMatchObject({ status: "created" });
      expect(refused).toMatchObject({ source: path, status: "skipped" });
      expect(refused!.problem).toContain(`${path} expands to more than 268 MB`);
      expect(refused!.problem).toContain("zstd -d");
    },
    60_000,
  );

  test.skipIf(!hasZstd)(`that grows to 100 times its size is imported${whyNoZstd}`, async () => {
    const path = join(scratchFolder(), rolloutName());
    const rollout = new Rollout().meta();
    rollout.items(...Array.from({ length: 2_000 }, () => message("user", "the same again ".repeat(20))));
    writeLines(path, rollout.lines);
    execFileSync("zstd", ["-q", path]);
    expect(statSync(path).size).toBeGreaterThan(100 * statSync(`${path}.zst`).size);
    expect(await importAll(`${path}.zst`, scratchStore())).toMatchObject([{ status: "created" }]);
  });

  const small = scratchFolder();
  const isMounted =
    hasZstd && spawnSync("mount", ["-t", "tmpfs", "-o", "size=16m", "tmpfs", small]).status === 0;
  const before = process.env["TMPDIR"];
  afterAll(() => {
    if (before === undefined) delete process.env["TMPDIR"];
    else process.env["TMPDIR"] = before;
    if (isMounted) execFileSync("umount", [small]);
  });

  test.skipIf(!isMounted)(
    `that takes more than half of the free space is reported${isMounted ? "" : " (skipped: nothing can be mounted)"}`,
    async () => {
      const folder = folderWithSession();
      const path = bomb(folder, 12);
      process.env["TMPDIR"] = small;
      const [session, refused] = await toldOf(folder);
      expect(session).toMatchObject({ status: "created" });
      expect(refused!.problem).toContain(
        `${path} expands to more than 8 MB, half of the free space in ${small}`,
      );
    },
  );

  test("of gzip is reported as such", async () => {
    const path = join(scratchFolder(), "session.jsonl.gz");
    writeFileSync(path, Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
    expect(await toldOf(path)).toMatchObject([
      { status: "skipped", problem: expect.stringContaining("`gunzip`") },
    ]);
  });
});

test("a line longer than a string can be is reported by its number, and keeps its position", async () => {
  const folder = scratchFolder();
  const path = writeSession(good, folder);
  const [begin, end] = JSON.stringify(user("long", "a1", { mark: "MARK" })).split("MARK") as [string, string];
  const file = openSync(path, "a");
  writeSync(file, begin);
  const piece = Buffer.alloc(1 << 20, "a");
  // V8's longest text has 512 MiB.
  for (let written = 0; written <= 513; written++) writeSync(file, piece);
  writeSync(file, `${end}\n${JSON.stringify(user("after", "long"))}\n`);
  closeSync(file);
  const store = scratchStore();
  const [report, ...others] = await importAll(path, store);
  rmSync(path);
  expect(others).toEqual([]);
  expect(report).toMatchObject({ source: path, status: "created", entries: 4 });
  expect(report!.issues).toMatchObject([{ kind: "unreadable-content", lines: "3" }]);
  expect(report!.issues[0]!.message).toContain("too long to read");
  const { session } = await opened(store, report!);
  expect(session.context.messages).toHaveLength(3);
  await session.close();
}, 120_000);

test("rollouts of Codex that continue and copy each other in a circle are imported", async () => {
  const folder = scratchFolder();
  const base = { thread_id: OTHER, end_byte_offset: 100_000 };
  writeRollout(new Rollout().meta({ history_base: base }).items(message("user", "a")).lines, folder);
  const copy = new Rollout().meta({ id: OTHER, forked_from_id: THREAD }).items(message("user", "b"));
  writeRollout(copy.lines, folder, OTHER);
  const reports = await importAll(folder, scratchStore());
  expect(reports.map(({ status }) => status)).toEqual(["created", "created"]);
  for (const { issues } of reports) expect(issues.map(({ kind }) => kind)).toContain("missing-base");
});

describe("a path that is not a regular file", () => {
  test("is reported by its type, alone and in a folder, without waiting", async () => {
    const folder = folderWithSession();
    const names = ["fifo.jsonl", `${rolloutName()}.zst`];
    for (const name of names) execFileSync("mkfifo", [join(folder, name)]);
    symlinkSync("/dev/zero", join(folder, "zero.jsonl"));
    const told = await toldOf(folder);
    expect(told[0]).toMatchObject({ status: "created" });
    const problems = new Map(told.slice(1).map(({ source, problem }) => [source, problem]));
    for (const name of names)
      expect(problems.get(join(folder, name))).toBe(`${join(folder, name)} is a FIFO; name a regular file.`);
    expect(problems.get(join(folder, "zero.jsonl"))).toBe("/dev/zero is a device; name a regular file.");
    for (const name of names)
      expect(await toldOf(join(folder, name))).toMatchObject([
        { status: "skipped", problem: expect.stringContaining("is a FIFO") },
      ]);
  });
});

describe("an unreadable folder", () => {
  /** Its path is longer than the system takes, so nobody can read it, the superuser included. */
  const unreadable = (above: string): void => {
    const script = `process.chdir(process.argv[1]);
      for (let n = 0; n < 20; n++) { require("fs").mkdirSync("d".repeat(250)); process.chdir("d".repeat(250)); }`;
    execFileSync(process.execPath, ["-e", script, above]);
  };

  test("is reported, and other folders are imported", async () => {
    const folder = folderWithSession();
    mkdirSync(join(folder, "deep"));
    unreadable(join(folder, "deep"));
    try {
      const [session, refused, ...others] = await toldOf(folder);
      expect(others).toEqual([]);
      expect(session).toMatchObject({ status: "created" });
      expect(refused).toMatchObject({ status: "skipped" });
      expect(refused!.problem).toMatch(/^\/.*cannot be (searched|looked at) \(ENAMETOOLONG\)/);
    } finally {
      execFileSync("rm", ["-rf", join(folder, "deep")]);
    }
  });
});
