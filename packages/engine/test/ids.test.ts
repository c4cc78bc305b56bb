import { execFile, execFileSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createSession, deleteSession, openOrCreate, openSession, type Session } from "@espalier/engine";
import { memoryStore } from "@espalier/session-tree";
import { sessionPath } from "@espalier/session-tree/node";
import { buildSync } from "esbuild";
import { afterAll, expect, test } from "vitest";

const folder = mkdtempSync(join(tmpdir(), "espalier-ids-"));
afterAll(() => rmSync(folder, { recursive: true }));
const newHome = () => mkdtempSync(join(folder, "home-"));

/** Makes a session that says something, and closes it; returns its file. */
async function made(home: string, id: string, cwd = "/garden"): Promise<string> {
  const session = await createSession({ home, id, cwd });
  await session.appendMessages([{ role: "user", content: `I am ${id}.` }]);
  await session.close();
  return session.file;
}

/** Bundles a program that uses the engine; returns its file. */
function bundled(name: string, source: string): string {
  const program = join(folder, name);
  buildSync({
    stdin: { contents: source, resolveDir: import.meta.dirname },
    outfile: program,
    bundle: true,
    platform: "node",
    format: "esm",
    external: ["pg", "jiti"],
    banner: {
      js: 'import { createRequire as requireOf } from "node:module"; const require = requireOf(import.meta.url);',
    },
  });
  return program;
}

async function fileOf(id: string, home: string): Promise<string> {
  const session = await openSession(id, { home, mode: "read" });
  await session.close();
  return session.file;
}

test("the beginning of an id opens and removes nothing", async () => {
  const home = newHome();
  const file = await made(home, "user-12");
  for (const id of ["user-1", "user-", "u", ""]) {
    await expect(openSession(id, { home })).rejects.toMatchObject({ code: "not-found" });
    await expect(deleteSession(id, { home })).rejects.toMatchObject({ code: "not-found" });
  }
  expect(await fileOf("user-12", home)).toBe(file);
  expect(await deleteSession("user-12", { home })).toEqual([file]);
});

test("an id is never read as a path, of a session or of any other file", async () => {
  const home = newHome();
  const file = await made(home, "s1");
  const named = join(folder, "s2");
  copyFileSync(file, named);
  const here = process.cwd();
  process.chdir(folder);
  try {
    for (const id of [file, named, "s2", "./s2", "s1.jsonl", dirname(file), ".."]) {
      await expect(openSession(id, { home })).rejects.toMatchObject({ code: "not-found" });
      await expect(openSession({ id }, { home })).rejects.toMatchObject({ code: "not-found" });
      await expect(deleteSession(id, { home })).rejects.toMatchObject({ code: "not-found" });
    }
  } finally {
    process.chdir(here);
  }
  expect(existsSync(named)).toBe(true);
  const session = await openSession({ file }, { home, mode: "read" });
  expect(session.id).toBe("s1");
  await session.close();
});

test("a second session with the same id is refused, and the first stays unchanged", async () => {
  const home = newHome();
  const file = await made(home, "user-1");
  for (const options of [{}, { cwd: "/orchard" }, { file: join(home, "sessions", "elsewhere", "x.jsonl") }])
    await expect(createSession({ home, id: "user-1", ...options })).rejects.toMatchObject({ code: "exists" });
  const session = await openSession("user-1", { home, mode: "read" });
  expect(session.file).toBe(file);
  expect(session.context.messages).toHaveLength(1);
  await session.close();
});

test("two files with one id are reported by their paths, wherever the second came from, until one is removed", async () => {
  const home = newHome();
  for (const [id, name] of [
    ["beside", "copy.jsonl"],
    ["dated", "2027-01-01T00-00-00-000Z_dated.jsonl"],
    ["renamed", "2027-01-01T00-00-00-000Z_renamed-copy.jsonl"],
    ["moved", join("..", "backup", "deep", "moved.jsonl")],
  ] as const) {
    const file = await made(home, id);
    expect(await fileOf(id, home)).toBe(file);
    const copy = join(dirname(file), name);
    mkdirSync(dirname(copy), { recursive: true });
    copyFileSync(file, copy);
    for (const act of [
      () => openSession(id, { home }),
      () => openSession(id, { home, mode: "read" }),
      () => deleteSession(id, { home }),
      () => openOrCreate(id, { home }),
    ])
      await expect(act()).rejects.toMatchObject({
        code: "ambiguous",
        message: expect.stringMatching(new RegExp(`(?=.*${file})(?=.*${copy})`)),
      });
    await expect(createSession({ home, id })).rejects.toMatchObject({ code: "exists" });
    await deleteSession({ file }, { home });
    expect(await fileOf(id, home)).toBe(copy);
    rmSync(copy);
    await expect(openSession(id, { home })).rejects.toMatchObject({ code: "not-found" });
    expect(await made(home, id)).not.toBe(copy);
  }
});

test("ids are found without their index, and with a wrong one", async () => {
  const home = newHome();
  const files = new Map<string, string>();
  for (const id of ["a", "b", "A"]) files.set(id, await made(home, id));
  const ids = join(home, "ids");
  const spoil = [
    () => rmSync(ids, { recursive: true }),
    () => {
      for (const name of readdirSync(ids)) writeFileSync(join(ids, name), "");
    },
    () => {
      for (const name of readdirSync(ids)) writeFileSync(join(ids, name), '\n["a","nowhere.jsonl"]\n{"fi');
    },
    () => rmSync(join(home, "listings.json"), { force: true }),
  ];
  for (const act of spoil) {
    act();
    for (const [id, file] of files) expect(await fileOf(id, home)).toBe(file);
    await expect(createSession({ home, id: "a" })).rejects.toMatchObject({ code: "exists" });
  }
});

test("an id whose session was removed by hand, or was never completed, is free again", async () => {
  const home = newHome();
  rmSync(await made(home, "a"));
  const again = await made(home, "a");
  expect(await fileOf("a", home)).toBe(again);
  // A process that died between its claim and its session: what it left names it, and nothing else.
  const [claim] = readdirSync(join(home, "ids")).filter((name) => name !== "known");
  const said = JSON.parse(readFileSync(join(home, "ids", claim!), "utf8").split("\n")[0]!);
  rmSync(again);
  writeFileSync(
    join(home, "ids", claim!),
    `${JSON.stringify({ ...said, by: { ...said.by, processStart: "1" } })}\n`,
  );
  expect(existsSync(await made(home, "a"))).toBe(true);
});

test("an id whose file has another session, or none, is free again, even if no process has noticed it", async () => {
  for (const text of ["", "no session\n"]) {
    const home = newHome();
    writeFileSync(await made(home, "a"), text);
    const again = await made(home, "a");
    expect(await fileOf("a", home)).toBe(again);
  }
}, 20_000);

test("a session file that a user adds by hand is found, and its id is taken", async () => {
  const home = newHome();
  const header = {
    type: "session",
    version: 3,
    id: "by-hand",
    timestamp: "2026-01-01T00:00:00.000Z",
    cwd: "/garden",
  };
  for (const path of [sessionPath(home, header), join(home, "sessions", "notes.jsonl")]) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, `${JSON.stringify(header)}\n`);
    expect(await fileOf("by-hand", home)).toBe(path);
    await expect(createSession({ home, id: "by-hand" })).rejects.toMatchObject({ code: "exists" });
    rmSync(path);
  }
});

test("of several processes that create one id at once, exactly one succeeds, and the others get an error", async () => {
  const source = `import { createSession } from "@espalier/engine";
    const [home, id, start] = process.argv.slice(2);
    while (Date.now() < Number(start));
    const said = await createSession({ home, id, cwd: "/" + process.pid }).then(
      async (session) => (await session.close(), session.file), (error) => error.code);
    console.log(said);`;
  const program = bundled("making.mjs", source);
  for (let round = 0; round < 3; round++) {
    const home = newHome();
    const start = `${Date.now() + 1_500}`;
    const said = await Promise.all(
      Array.from(
        { length: 4 },
        () =>
          new Promise<string>((resolve, reject) => {
            execFile(process.execPath, [program, home, "one", start], (error, stdout) =>
              error ? reject(error) : resolve(stdout.trim()),
            );
          }),
      ),
    );
    const files = said.filter((each) => each !== "exists");
    expect(files).toHaveLength(1);
    expect(await fileOf("one", home)).toBe(files[0]);
  }
}, 60_000);

test("a process that is killed while it takes an id leaves the id free", async () => {
  const home = newHome();
  // The process ends inside the call that writes the text of the claim, when its file exists and is empty.
  const source = `
    import { createSession } from "@espalier/engine";
    import fs from "node:fs";
    import { syncBuiltinESMExports } from "node:module";
    const write = fs.writeSync;
    fs.writeSync = (fd, bytes, ...place) => {
      if (!Buffer.from(bytes).includes('"by"')) return write(fd, bytes, ...place);
      process.kill(process.pid, "SIGKILL");
    };
    syncBuiltinESMExports();
    await createSession({ home: process.argv[2], id: "one", cwd: "/garden" });`;
  const program = bundled("killed.mjs", source);
  const signal = await new Promise((resolve) => {
    execFile(process.execPath, [program, home], (error) => resolve(error?.signal));
  });
  expect(signal).toBe("SIGKILL");
  expect(readdirSync(join(home, "ids"))).toEqual([expect.stringMatching(/\.tmp$/)]);
  const session = await createSession({ home, id: "one", cwd: "/garden" });
  await session.close();
});

test("opening by id reads no folder of a large store, also when nothing is remembered of the id", () => {
  const home = newHome();
  const sessions = join(home, "sessions", "garden");
  mkdirSync(sessions, { recursive: true });
  for (let at = 0; at < 4_000; at++) {
    const header = {
      type: "session",
      version: 3,
      id: `s${at}`,
      timestamp: "2026-01-01T00:00:00.000Z",
      cwd: "/garden",
    };
    writeFileSync(join(sessions, `2026-01-01T00-00-00-000Z_s${at}.jsonl`), `${JSON.stringify(header)}\n`);
  }
  // A process of its own, because it replaces the functions that read folders.
  const source = `
    import { openSession } from "@espalier/engine";
    import fs from "node:fs";
    import { syncBuiltinESMExports } from "node:module";
    const read = [];
    for (const [from, name] of [[fs, "readdirSync"], [fs, "readdir"], [fs, "opendir"], [fs, "opendirSync"],
        [fs.promises, "readdir"], [fs.promises, "opendir"]]) {
      const real = from[name];
      from[name] = (folder, ...more) => (read.push(String(folder)), real(folder, ...more));
    }
    syncBuiltinESMExports();
    const home = process.argv[2];
    const foldersOf = async (ref) => {
      read.length = 0;
      await (await openSession(ref, { home, mode: "read" })).close();
      return read.filter((folder) => folder.includes("sessions"));
    };
    // The first opening remembers the ids of all sessions; of the others nothing else is known. In a store of this
    // size the folders are read again after 0.4 seconds, so the clock stands still.
    const first = await foldersOf("s1");
    const { mtimeMs } = fs.statSync(home + "/ids/known");
    Date.now = () => mtimeMs;
    console.log(JSON.stringify([first, await foldersOf("s1"), await foldersOf("s1700")]));`;
  const answer = execFileSync(process.execPath, [bundled("folders.mjs", source), home], { encoding: "utf8" });
  const [first, known, unknown] = JSON.parse(answer);
  expect(first.length).toBeGreaterThan(0);
  expect({ known, unknown }).toEqual({ known: [], unknown: [] });
});

test("a path in place of an id is answered with the way to open a file", async () => {
  const home = newHome();
  await expect(openSession(await made(home, "one"), { home })).rejects.toMatchObject({
    code: "not-found",
    message: expect.stringMatching(/; name a file by `\{ file: path \}`\.$/),
  });
});

test("openOrCreate creates a session once and then opens it, by id and by file, in files and in memory", async () => {
  const home = newHome();
  for (const options of [{ home }, { store: memoryStore() }])
    for (const ref of ["user-7", { id: "user-8" }, { file: join(home, "notes.jsonl") }]) {
      const first = await openOrCreate(ref, options);
      await first.appendMessages([{ role: "user", content: "Once." }]);
      await first.close();
      const again = await openOrCreate(ref, options);
      expect(again.context.messages).toHaveLength(1);
      expect([again.id, again.file]).toEqual([first.id, first.file]);
      await again.close();
      if (!(typeof ref === "object" && "file" in ref))
        expect(first.id).toBe(typeof ref === "string" ? ref : ref.id);
    }
});

test("of many that open or create a session at once, one creates it, and waiting callers take turns", async () => {
  const home = newHome();
  const act = async (): Promise<Session["id"]> => {
    const session = await openOrCreate("shared", { home, waitMs: 20_000 });
    await session.appendMessages([{ role: "user", content: "Here." }]);
    await session.close();
    return session.file;
  };
  const files = await Promise.all(Array.from({ length: 5 }, act));
  expect(new Set(files).size).toBe(1);
  const session = await openSession("shared", { home, mode: "read" });
  expect(session.context.messages).toHaveLength(5);
  await session.close();
}, 60_000);
