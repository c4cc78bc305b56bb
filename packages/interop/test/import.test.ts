import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import {
  agentNames,
  agentTitle,
  claudeCodeImporter,
  codexImporter,
  otherAgents,
  piImporter,
  type SessionImporter,
} from "@espalier/interop";
import { describeFound, foundSessions, importSessions, localAgents } from "@espalier/interop/node";
import { bytesView } from "@espalier/jsonl-stream";
import { memoryStore, referenceIssues, SessionTree } from "@espalier/session-tree";
import { describe, expect, test } from "vitest";
import {
  answer,
  aside,
  boundary,
  call,
  type Line,
  result,
  SESSION,
  summary,
  thinking,
  user,
} from "./claude-code-lines.ts";
import * as codex from "./codex-lines.ts";
import { prompt, Rollout, rolloutName, THREAD } from "./codex-lines.ts";
import {
  type AnyEntry,
  importAll,
  imported,
  joined,
  opened,
  said,
  scratchFolder,
  scratchStore,
  writeLines,
  writeSession,
} from "./import-scratch.ts";
import { requestProblems } from "./request-problems.ts";

/** A conversation with everything that is put together of several lines. */
const claudeLines: Line[] = [
  aside("mode", { mode: "default" }),
  user("u1", null, "mark u1"),
  answer("a1", "u1", thinking("mark a1"), { id: "m1" }),
  answer("a2", "a1", "mark a2", { id: "m1" }),
  answer("a3", "a2", call("c1", { mark: "mark a3" }), { id: "m1" }),
  result("r1", "a3", "c1", "mark r1"),
  answer("a4", "a3", call("c2", { mark: "mark a4" }), { id: "m1", stop: "tool_use" }),
  result("r2", "a4", "c2", "mark r2"),
  aside("cost-state", { mark: "mark cost" }),
  answer("a5", "r2", "mark a5"),
  user("u2", "a5", "mark u2"),
  answer("a6", "u2", "mark a6"),
  user("u3", "a5", "mark u3"),
  answer("a7", "u3", "mark a7"),
  aside("custom-title", { customTitle: "mark title" }),
  boundary("b1", "a7", ["u3", "a7"], "s1", { mark: "mark b1" }),
  summary("s1", "b1", "mark s1"),
  user("u4", "s1", "mark u4"),
  answer("a8", "u4", "mark a8"),
];

const codexLines: Line[] = new Rollout({ ordinal: 0 })
  .meta({ mark: "mark meta" })
  .turn()
  .items(
    prompt("mark u1"),
    codex.reasoning("mark r1"),
    codex.message("assistant", "mark a1"),
    codex.call("c1", { mark: "mark c1" }),
  )
  .record()
  .items(codex.output("c1", "mark o1"), codex.message("assistant", "mark a2"))
  .record()
  .items(prompt("mark u2"), codex.message("assistant", "mark a3"))
  .event("thread_rolled_back", { num_turns: 1 })
  .items(prompt("mark u3"), codex.message("assistant", "mark a4"))
  .record()
  .add("compacted", { message: "mark s1", replacement_history: [prompt("mark u3")] })
  .items(prompt("mark u4"), codex.message("assistant", "mark a5")).lines;

const sources = {
  "claude-code": { name: `${SESSION}.jsonl`, lines: claudeLines, id: SESSION },
  codex: { name: rolloutName(), lines: codexLines, id: THREAD },
};

describe.each(Object.entries(sources))("importing %s again", (agent, { name, lines, id }) => {
  test("adds nothing if nothing is new, also through another path", async () => {
    const store = scratchStore();
    const path = writeLines(join(scratchFolder(), name), lines);
    const [first] = await importAll(path, store);
    const bytes = readFileSync(first!.file!);
    const [second] = await importAll(writeLines(join(scratchFolder(), name), lines), store);
    expect(second).toMatchObject({
      status: "unchanged",
      added: 0,
      entries: first!.entries,
      branches: first!.branches,
      compactions: first!.compactions,
    });
    expect(readFileSync(first!.file!)).toEqual(bytes);
    expect(statSync(first!.file!).mode & 0o777).toBe(0o600);
  });

  test("after any number of lines gives the same final result as one import", async () => {
    const whole = await imported(writeLines(join(scratchFolder(), name), lines));
    const expected = said(whole.session.context.messages);
    for (let count = 2; count < lines.length; count++) {
      const folder = scratchFolder();
      const store = memoryStore();
      const path = join(folder, name);
      await importAll(writeLines(path, lines.slice(0, count)), store);
      const [report] = await importAll(writeLines(path, lines), store);
      const { session, entries } = await opened(store, report!);
      // A message that was taken in when half of it was written stays two messages; a request says them as one.
      expect(joined(said(session.context.messages)), `after ${count} lines`).toEqual(joined(expected));
      expect(requestProblems(session.context)).toEqual([]);
      expect(new Set(entries.map((entry) => entry.id)).size).toBe(entries.length);
      expect([...session.tree.issues, ...referenceIssues(session.tree)]).toEqual([]);
      expect(bills(entries)).toBe(bills(whole.entries));
      expect(await importAll(path, store)).toMatchObject([{ added: 0 }]);
    }
  });

  test("does not move messages that were added here", async () => {
    const folder = scratchFolder();
    const store = scratchStore();
    const path = join(folder, name);
    const [first] = await importAll(writeLines(path, lines.slice(0, -2)), store);
    const mine = await SessionTree.open(await store.open({ file: first!.file! }, "write"));
    const [own] = await mine.append({
      type: "message",
      message: { role: "user", content: "mine", timestamp: 1 },
    } as never);
    await mine.close();
    const [report] = await importAll(writeLines(path, lines), store);
    const { session } = await opened(store, report!);
    expect(session.leafId).toBe(own!.id);
    expect(report!.branches).toBe(first!.branches + 1);
    expect(said(session.context.messages).at(-1)).toBe("user: mine");
  });

  test("creates another session if one of other origin has its id", async () => {
    const store = scratchStore();
    await (
      await store.create({ type: "session", version: 3, id, timestamp: "2026-01-01T00:00:00.000Z", cwd: "/" })
    ).close();
    const path = writeLines(join(scratchFolder(), name), lines);
    const [report] = await importAll(path, store);
    expect(report!.sessionId).not.toBe(id);
    expect(await importAll(path, store)).toMatchObject([
      { status: "unchanged", sessionId: report!.sessionId },
    ]);
    const { session } = await opened(store, report!);
    expect(session.header?.importedFrom).toMatchObject({ agent, id });
  });

  test("fails at once if both ids that the session could get are taken", async () => {
    const store = memoryStore();
    const path = writeLines(join(scratchFolder(), name), lines);
    const opened: unknown[] = [];
    const open: typeof store.open = (where, mode) => {
      opened.push(where);
      return store.open(where, mode);
    };
    const header = { type: "session", version: 3, timestamp: "2026-01-01T00:00:00.000Z", cwd: "/" } as const;
    await (await store.create({ ...header, id })).close();
    const [second] = await importAll(path, store);
    await store.delete({ file: second!.file! });
    await (await store.create({ ...header, id: second!.sessionId! })).close();
    await expect(importAll(path, { ...store, open })).rejects.toMatchObject({ code: "exists" });
    expect(opened).toHaveLength(2);
  });

  test("writes to any store", async () => {
    const store = memoryStore();
    const path = writeLines(join(scratchFolder(), name), lines);
    expect(await importAll(path, store)).toMatchObject([{ status: "created", file: id }]);
    expect(await importAll(path, store)).toMatchObject([{ status: "unchanged" }]);
  });
});

const bills = (entries: readonly AnyEntry[]): number =>
  entries.filter(({ usage, message }) => usage ?? message?.usage).length;

describe("an imported source", () => {
  test("is found in the folders of agents, with one report per session", async () => {
    const home = scratchFolder();
    writeLines(join(home, ".claude", "projects", "-home-me-project", `${SESSION}.jsonl`), claudeLines);
    writeLines(join(home, ".codex", "sessions", "2026", "11", "21", rolloutName()), codexLines);
    const store = scratchStore();
    const seen: unknown[] = [];
    for (const { agent } of localAgents.slice(0, 2)) {
      const onProgress = (progress: unknown) => seen.push(progress);
      const [report] = await importAll(agent, store, { env: { HOME: home }, onProgress });
      expect(report).toMatchObject({
        agent,
        status: "created",
        sessionId: sources[agent as keyof typeof sources].id,
      });
    }
    expect(seen).toMatchObject([
      { index: 0, total: 1 },
      { index: 0, total: 1 },
    ]);
  });

  test("is counted by file names, without sub-agent runs and without Pi, which needs no import", () => {
    const home = scratchFolder();
    const env = { HOME: home };
    expect(describeFound(foundSessions(env))).toBe("");
    const project = join(home, ".claude", "projects", "-home-me-project");
    for (const name of ["a", "b", "agent-1", join("a", "subagents", "agent-2")])
      writeLines(join(project, `${name}.jsonl`), claudeLines);
    const archived = join(home, ".codex", "archived_sessions");
    writeLines(join(archived, rolloutName()), codexLines);
    const more = rolloutName().replace(".jsonl", "_01a1ffe6-7e63-7003-b4a1-a8a0b5aa897f.jsonl");
    writeLines(join(archived, more), codexLines);
    writeLines(join(home, ".pi", "agent", "sessions", "here", "p.jsonl"), []);
    const found = foundSessions(env);
    expect(found).toEqual([
      { agent: "claude-code", title: "Claude Code", sessions: 2 },
      { agent: "codex", title: "Codex", sessions: 1 },
    ]);
    expect(describeFound(found)).toBe("2 Claude Code sessions, 1 Codex");
    expect(describeFound(found.slice(1))).toBe("1 Codex session");
  });

  test("is of an agent of the table, which has folders and an importer of that name, and a title", () => {
    expect(localAgents).toMatchObject(otherAgents);
    for (const { agent, folders, importer } of localAgents) {
      expect(importer({ files: [], open: () => undefined }).agent).toBe(agent);
      expect(folders({ HOME: "/home/me" }).join("\n")).toMatch(/^\/home\/me\//);
    }
    expect(agentNames.map(agentTitle)).toEqual(["Espalier", ...otherAgents.map(({ title }) => title)]);
    expect(agentTitle("toString")).toBe("toString");
  });

  test("is recognized by its content in any folder, and other files are reported", async () => {
    const folder = scratchFolder();
    writeLines(join(folder, "a.jsonl"), claudeLines);
    writeLines(join(folder, "deep", "b.jsonl"), codexLines);
    writeLines(join(folder, "c.jsonl"), [{ hello: "world" }]);
    writeLines(join(folder, "d.jsonl"), []);
    writeLines(join(folder, "e.jsonl"), [aside("summary", { summary: "of another", sessionId: "another" })]);
    writeLines(join(folder, "f.txt"), ["not looked at"]);
    const reports = await importAll(folder, scratchStore());
    const told = reports.map(({ source, agent, status, issues }) => [
      source.slice(folder.length + 1),
      agent,
      status,
      issues[0]?.kind,
    ]);
    expect(told.sort()).toEqual([
      ["a.jsonl", "claude-code", "created", undefined],
      ["c.jsonl", null, "skipped", "not-a-session"],
      ["d.jsonl", null, "skipped", "not-a-session"],
      ["deep/b.jsonl", "codex", "created", undefined],
      ["e.jsonl", "claude-code", "skipped", "not-a-session"],
    ]);
  });

  test("can be limited to one working folder", async () => {
    const path = writeSession(claudeLines);
    expect(await importAll(path, scratchStore(), { cwd: "/home/me/other" })).toEqual([]);
    expect(await importAll(path, scratchStore(), { cwd: "/home/me/project/" })).toHaveLength(1);
  });

  test("is not changed, and its session has the digest of the source", async () => {
    const path = writeSession(claudeLines);
    const before = readFileSync(path);
    const { session } = await imported(path);
    expect(session.header?.importedFrom?.digest).toBe(createHash("sha256").update(before).digest("hex"));
    expect(readFileSync(path)).toEqual(before);
  });

  test("is refused in one sentence if it does not exist", async () => {
    const run = (what: string) => importAll(what, scratchStore(), { env: { HOME: scratchFolder() } });
    await expect(run("/nowhere/at/all")).rejects.toMatchObject({
      code: "not-found",
      message: expect.stringContaining(otherAgents.map(({ agent }) => agent).join(", ")),
    });
    await expect(run("codex")).rejects.toMatchObject({ code: "not-found" });
  });

  test("is reported if it cannot be read", async () => {
    const folder = scratchFolder();
    mkdirSync(join(folder, "folder.jsonl"));
    expect(await importAll(folder, scratchStore())).toEqual([]);
  });

  test("is read only as far as reports are requested, and completed by the next import", async () => {
    const folder = scratchFolder();
    for (const at of [1, 2, 3]) {
      const id = SESSION.replace(/^1/, String(at + 3));
      writeLines(
        join(folder, `${id}.jsonl`),
        claudeLines.map((line) => ({ ...line, sessionId: id })),
      );
    }
    const store = scratchStore();
    for await (const _ of importSessions(folder, { store })) break;
    expect((await importAll(folder, store)).map(({ status }) => status).sort()).toEqual([
      "created",
      "created",
      "unchanged",
    ]);
  });

  test("loses well-known keys, at every import, which is reported; redaction can be switched off", async () => {
    const key = `gh${"p"}_${"aB3dE5gH7jK9mN1pQ".repeat(3).slice(0, 36)}`;
    const lines: Line[] = [
      user("u1", null, `Use ${key}`),
      answer("a1", "u1", call("c1", { header: `token ${key}` }), { id: "m1" }),
      result("r1", "a1", "c1", `it is ${key}`),
      answer("a2", "r1", "Done.", { id: "m2" }),
    ];
    const folder = scratchFolder();
    const file = join(folder, `${SESSION}.jsonl`);
    for (const redact of [undefined, false] as const) {
      const store = scratchStore();
      const options = redact === undefined ? {} : { redact };
      writeLines(file, lines.slice(0, 2));
      const [first] = await importAll(file, store, options);
      writeLines(file, lines);
      const [second] = await importAll(file, store, options);
      const text = readFileSync(second!.file!, "utf8");
      expect(text.includes(key)).toBe(redact === false);
      expect(text.includes("[redacted github token]")).toBe(redact !== false);
      const told = [first, second].map(
        (report) => report!.issues.filter(({ kind }) => kind === "content").length,
      );
      expect(told).toEqual(redact === false ? [0, 0] : [1, 1]);
      expect((await importAll(file, store, options))[0]!.status).toBe("unchanged");
    }
  });

  test("keeps values that no session can store as text", async () => {
    let deep: unknown = "bottom";
    for (let level = 0; level < 300; level++) deep = [deep];
    const input = `{"deep":${JSON.stringify(deep)},"__proto__":{"a":1},"half":"\\ud83d"}`;
    const line = JSON.stringify(answer("a1", "u1", call("c1", { x: 1 }))).replace('{"x":1}', input);
    const { entries, report } = await imported(writeSession([user("u1", null), line]));
    const { arguments: kept } = (entries[1] as AnyEntry).message.content[0];
    expect(JSON.stringify(kept)).toContain("bottom");
    expect(kept.half).toBe("\ufffd");
    expect(Object.keys(kept)).toContain("[__proto__]");
    const issue = { kind: "content", id: "a1", count: 1 };
    expect(report.issues).toMatchObject([issue, issue]);
  });

  test("has half a character of a cut text replaced, in a converted line, which is reported", async () => {
    const lines = [user("u1", null, "cut \ud83d off"), answer("a1", "u1", "a whole \\ud83d")];
    const { report, entries } = await imported(writeSession(lines));
    expect(entries).toMatchObject([
      { message: { content: "cut \ufffd off" } },
      { message: { content: [{ text: "a whole \\ud83d" }] } },
    ]);
    expect(report.issues).toMatchObject([{ kind: "content", id: "u1", count: 1 }]);
    expect(report.issues[0]!.message).toContain("U+FFFD");
  });

  test("can be read in a browser, from bytes alone", () => {
    const bytes = (lines: readonly Line[]) =>
      new TextEncoder().encode(lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
    const read = (importer: SessionImporter, path: string, lines: readonly Line[]) => {
      const [draft] = importer.read({ path, view: bytesView(bytes(lines)), digest: () => "" });
      return [...draft!.entries()].length;
    };
    expect(read(claudeCodeImporter(), "dropped.jsonl", claudeLines)).toBeGreaterThan(10);
    expect(read(codexImporter(), "dropped.jsonl", codexLines)).toBeGreaterThan(10);
    const session = { type: "session", version: 1, id: SESSION, timestamp: "", cwd: "" };
    const first = [session, { type: "message", message: { role: "user", content: "Hi" } }];
    expect(read(piImporter(), "dropped.jsonl", first)).toBe(1);
  });
});

/** A generator of numbers that gives the same ones for the same seed. */
function numbersFrom(seed: number): (below: number) => number {
  let state = seed * 2_654_435_761;
  return (below) => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) | 0;
    return (state >>> 0) % below;
  };
}

/** What happens to files: cut, bytes changed, lines lost, doubled, moved, glued together, nonsense in between. */
function damage(lines: readonly string[], next: (below: number) => number): Buffer {
  const damaged = [...lines];
  for (let times = next(4); times >= 0; times--) {
    const at = next(damaged.length || 1);
    const ways = [
      () => damaged.splice(at, 1),
      () => damaged.splice(at, 0, damaged[next(damaged.length)] ?? "{}"),
      () => damaged.splice(next(damaged.length), 0, ...damaged.splice(at, 1)),
      () => damaged.splice(at, 1, damaged[at]?.slice(0, next(200)) ?? ""),
      () => damaged.splice(at, 2, `${damaged[at]?.slice(0, next(200)) ?? ""}${damaged[at + 1] ?? ""}`),
      () =>
        damaged.splice(
          at,
          0,
          [
            "",
            "null",
            "[]",
            "{}",
            '{"type":1}',
            '{"type":"user"}',
            '{"type":"response_item","payload":{}}',
            "\0\0",
          ][next(8)]!,
        ),
      () =>
        damaged.splice(
          at,
          1,
          (damaged[at] ?? "").replace(/"(parentUuid|logicalParentUuid)":"[^"]*"/, '"$1":"u3"'),
        ),
      () =>
        damaged.splice(
          at,
          1,
          (damaged[at] ?? "").replace(/:"[^"]*"/g, (text) =>
            next(4) === 0 ? [":null", ":1", ":[]", ":{}"][next(4)]! : text,
          ),
        ),
    ];
    ways[next(ways.length)]!();
  }
  const bytes = Buffer.from(damaged.map((line) => `${line}\n`).join(""));
  if (next(3) === 0)
    for (let times = next(5); times >= 0; times--) bytes[next(bytes.length || 1)] = next(256);
  return next(3) === 0 ? bytes.subarray(0, next(bytes.length + 1)) : bytes;
}

describe.each(Object.entries(sources))("a damaged file of %s", (_agent, { name, lines }) => {
  test("never crashes or hangs an import, and loses no readable line", async () => {
    const store = memoryStore();
    const texts = lines.map((line) => JSON.stringify(line));
    const path = join(scratchFolder(), name);
    mkdirSync(dirname(path), { recursive: true });
    for (let seed = 1; seed <= 200; seed++) {
      const bytes = damage(texts, numbersFrom(seed));
      writeFileSync(path, bytes);
      for (const report of await importAll(path, store)) {
        if (report.status === "skipped") continue;
        const { session, entries } = await opened(store, report);
        expect([...session.tree.issues, ...referenceIssues(session.tree)], `seed ${seed}`).toEqual([]);
        if (session.context.messages.length > 0) requestProblemsOf(session, seed);
        expect(
          marksIn(bytes, texts).filter((mark) => !JSON.stringify(entries).includes(mark)),
          `seed ${seed}`,
        ).toEqual([]);
        await store.delete({ file: report.file! });
      }
    }
  });
});

/** A session of which nothing is left that could be said is no request. */
function requestProblemsOf({ context }: SessionTree, seed: number): void {
  try {
    expect(requestProblems(context), `seed ${seed}`).toEqual([]);
  } catch (error) {
    if ((error as { code?: unknown }).code !== "empty-context") throw error;
  }
}

/** The marks of the lines that came through whole. */
function marksIn(bytes: Buffer, lines: readonly string[]): string[] {
  const there = new Set(bytes.toString().split("\n"));
  return lines.filter((line) => there.has(line)).flatMap((line) => line.match(/mark [a-z]+\d?/)?.[0] ?? []);
}
