import { EventEmitter, once } from "node:events";
import { appendFileSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import type { Rule } from "@espalier/compaction";
import { createSession, type LastAct, openSession, type Session } from "@espalier/engine";
import { summarizer } from "@espalier/summarizer";
import { serveViewer, type ViewerSessions } from "@espalier/viewer";
import { treeReader } from "@espalier/viewer/model";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { remoteReader } from "../src/page/source/page-source.ts";
import type { FoundSession, ListedForPage } from "../src/server/open-sessions.ts";
import { DEMO, Scratch, sessionsIn } from "./scratch.ts";

const scratch = new Scratch();
const page = scratch.path("page.html");
let url = "";
let writing = "";
let file = "";
const KEY = "LTfrBGnUynOG";
const { fetch } = globalThis;

beforeAll(async () => {
  writeFileSync(page, '<!--policy--><style>a{}</style><!--session--><script type="module">1</script>');
  file = scratch.copy(DEMO);
  url = (await scratch.serve(page)).url;
  writing = (await scratch.serve(page, { write: true })).url;
});
afterAll(() => scratch.end());

const get = (path: string, headers: Record<string, string> = {}) => fetch(`${url}${path}`, { headers });
const post = (base: string, path: string, body: unknown, headers: Record<string, string> = {}) =>
  fetch(`${base}api/sessions/${KEY}/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
const linesOf = async (response: Response) =>
  (await response.text())
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));

describe("an undo", () => {
  test("takes back only the action that a page has shown", async () => {
    const acts = async () =>
      (await get(`api/sessions/${KEY}/act`)).json() as Promise<Record<"undo" | "redo", LastAct>>;
    const shown = (await acts()).undo.entryId;
    const other = await openSession({ file });
    const named = await other.rename("Springs and neaps");
    await other.close();
    const refused = (await linesOf(await post(writing, "undo", { expected: shown }))).at(-1);
    expect(refused.error).toMatchObject({ code: "stale" });
    expect((await acts()).undo).toMatchObject({ entryId: named, text: "Springs and neaps" });
    const undone = (await linesOf(await post(writing, "undo", { expected: named }))).at(-1);
    expect(undone.result.act.entryId).toBe(named);
    expect(await acts()).toMatchObject({ undo: { entryId: shown }, redo: { entryId: named } });
    const redone = (await linesOf(await post(writing, "redo", { expected: shown }))).at(-1);
    expect(redone.error).toMatchObject({ code: "stale" });
  });
});

describe("the access check", () => {
  test("refuses requests without the token, and does not reveal which addresses exist", async () => {
    const { origin } = new URL(url);
    for (const path of [
      "",
      "/",
      "/api/sessions",
      "/x/api/sessions",
      `${new URL(url).pathname.slice(0, -3)}/`,
    ])
      expect((await fetch(`${origin}${path}`)).status).toBe(404);
  });

  test("refuses pages of another origin, and other host names for this machine", async () => {
    expect((await get("api/sessions", { origin: "https://evil.example" })).status).toBe(403);
    expect((await get("api/sessions", { origin: "null" })).status).toBe(403);
    expect((await get("api/sessions", { origin: new URL(url).origin })).status).toBe(200);
    // fetch sets the Host itself; a plain request may say what it likes.
    const { request } = await import("node:http");
    const { hostname, port, pathname } = new URL(url);
    const status = await new Promise((resolve) =>
      request(
        { hostname, port, path: `${pathname}api/sessions`, headers: { host: "evil.example" } },
        (answer) => {
          answer.resume();
          resolve(answer.statusCode);
        },
      ).end(),
    );
    expect(status).toBe(403);
  });

  test("sends the same headers with refusals as with answers", async () => {
    const names = [
      "cache-control",
      "referrer-policy",
      "x-content-type-options",
      "x-frame-options",
      "cross-origin-resource-policy",
      "cross-origin-opener-policy",
    ];
    const { origin } = new URL(url);
    const label = (init: RequestInit) =>
      fetch(`${writing}api/sessions/${KEY}/label`, { method: "POST", ...init });
    const refusals = [
      [404, await fetch(`${origin}/nobody/api`)],
      [404, await get("api/sessions/nobody/facts")],
      [404, await get("api/nothing/at/all")],
      [403, await get("api", { origin: "http://attacker.invalid" })],
      [403, await post(url, "label", {})],
      [400, await get(`api/sessions/${KEY}/gists`)],
      [400, await label({ body: "id=x" })],
      [
        413,
        await label({ headers: { "content-type": "application/json" }, body: `"${"x".repeat(2_000_000)}"` }),
      ],
    ] as const;
    const { headers: usual } = await get("api");
    for (const [status, { status: given, headers }] of refusals) {
      expect(given).toBe(status);
      for (const name of names) expect(headers.get(name), `${status} ${name}`).toBe(usual.get(name));
    }
  });

  test("restricts the page to its own script, style and server", async () => {
    const answer = await get("");
    const policy = answer.headers.get("content-security-policy") ?? "";
    expect(policy).toContain("default-src 'none'");
    expect(policy).toMatch(/script-src 'sha256-[^']+';/);
    expect(policy).toContain("connect-src 'self'");
    expect(policy).not.toContain("unsafe");
    expect(answer.headers.get("referrer-policy")).toBe("no-referrer");
    expect(answer.headers.get("cache-control")).toBe("no-store");
  });
});

test("names a port that is in use", async () => {
  const taken = Number(new URL(url).port);
  const asking = serveViewer({ sessions: sessionsIn(scratch.folder), page, port: taken });
  await expect(asking).rejects.toMatchObject({ code: "port", message: expect.stringContaining(`${taken}`) });
});

describe("the answer of the server", () => {
  test("equals that of a reader of the session's bytes", async () => {
    const session = await openSession({ file }, { mode: "read" });
    const reader = treeReader(session.tree);
    const asked: [string, Promise<unknown>][] = [
      ["facts", reader.facts()],
      ["outline?from=0&to=1000", reader.outline(0, 1_000)],
      ["outline?from=100&to=110", reader.outline(100, 110)],
      ["gists?from=0&to=300", reader.gists(0, 300)],
      ["entries?rows=1,5,9", reader.entries([1, 5, 9])],
      ["context?row=150", reader.context(150)],
      ["context?row=-1", reader.context(-1)],
      ["growth?row=150", reader.growth(150)],
      ["spending", reader.spending()],
      ["stats", reader.stats()],
      ["breaks", reader.breaks()],
      ["branches", reader.branches()],
      ["forecast?row=60", reader.forecast(60)],
      ["find?q=harmonic", reader.find("harmonic")],
      ["rules?row=60", reader.rules(60)],
      ["rules?row=-1", reader.rules(-1)],
      ["compare?a=150&b=60", reader.compare(150, 60)],
    ];
    for (const [path, expected] of asked) {
      const answer = await get(`api/sessions/${KEY}/${path}`);
      expect([path, await answer.json()]).toEqual([path, JSON.parse(JSON.stringify(await expected))]);
    }
    await session.close();
  });

  test("has only recorded rules when the setting `rules` is off", async () => {
    const name = scratch.path("rules.jsonl");
    const session = await createSession({ file: name, rules: false });
    const [said] = await session.appendMessages([{ role: "user", content: "Never push to main." }]);
    const { id } = session;
    await session.close();
    const rules = async (base: string) =>
      (await fetch(`${base}api/sessions/${id}/rules?row=0`)).json() as Promise<Rule[]>;
    expect(await rules(url)).toMatchObject([{ text: "Never push to main", from: { entryId: said!.id } }]);
    const quiet = await scratch.serve(page, { isFinding: async () => false });
    expect(await rules(quiet.url)).toEqual([]);
    rmSync(name);
  });

  test("comes in parts if a page requests many entries", async () => {
    // A page's addresses are relative to its own.
    vi.stubGlobal("fetch", (path: string) => fetch(`${url}${path}`));
    const rows = Array.from({ length: 4_500 }, (_, at) => at % 200);
    const entries = await remoteReader(KEY)
      .entries(rows)
      .finally(() => vi.unstubAllGlobals());
    const session = await openSession({ file }, { mode: "read" });
    expect(entries).toEqual(await treeReader(session.tree).entries(rows));
    await session.close();
  });

  test("lists the folder and searches all its sessions", async () => {
    expect(await (await get("api")).json()).toEqual({ write: false });
    const sessions = (await (await get("api/sessions")).json()) as { key: string; file: string }[];
    expect(sessions).toMatchObject([{ key: KEY, file }]);
    const found = (await (await get("api/search?q=tide")).json()) as FoundSession[];
    expect(found).toMatchObject([{ key: KEY, hasMore: false }]);
    expect(found[0]!.count).toBeGreaterThan(3);
    expect(found[0]!.hits.map(({ snippet }) => /tide/i.test(snippet))).toEqual([true, true, true]);
    const search = async (filter: string) => (await get(`api/search?q=tide&${filter}`)).json();
    expect(await search("agent=codex")).toEqual([]);
    expect(await search("project=/nowhere")).toEqual([]);
    expect(await search("since=2999-01-01T00:00:00Z")).toEqual([]);
    expect(await search("agent=espalier&since=2000-01-01T00:00:00Z")).toEqual(found);
  });

  test("has the same hits as reading every entry, whatever the text", async () => {
    const session = await openSession({ file }, { mode: "read" });
    const reader = treeReader(session.tree);
    for (const query of [
      "harmonic",
      "HARMONIC constants",
      '"path":"src/',
      "a",
      "—",
      "write(",
      "nowhere at all",
    ]) {
      const answer = await get(`api/sessions/${KEY}/find?q=${encodeURIComponent(query)}`);
      expect([query, await answer.json()]).toEqual([query, await reader.find(query)]);
    }
    await session.close();
  });

  test("distinguishes two files with the same id", async () => {
    const copy = scratch.copy(DEMO, "copy.jsonl");
    const listed = (await (await get("api/sessions")).json()) as { key: string; file: string }[];
    const key = listed.find((session) => session.file === copy)?.key ?? "";
    expect(new Set(listed.map((session) => session.key)).size).toBe(2);
    expect((await get(`api/sessions/${encodeURIComponent(key)}/facts`)).status).toBe(200);
    rmSync(copy);
  });

  test("follows a file that replaced another one", async () => {
    const replaced = scratch.copy(DEMO, "replaced.jsonl");
    const listed = (await (await get("api/sessions")).json()) as { key: string; file: string }[];
    const facts = `api/sessions/${encodeURIComponent(listed.find((session) => session.file === replaced)!.key)}/facts`;
    expect((await get(facts)).status).toBe(200);
    const beside = scratch.path("beside.jsonl");
    writeFileSync(beside, `${readFileSync(DEMO, "utf8").split("\n").slice(0, 61).join("\n")}\n`);
    renameSync(beside, replaced);
    expect(await (await get(facts)).json()).toMatchObject({ length: 60 });
    rmSync(replaced);
  });

  test("is served after one reopening when a session fails, although several requests notice the failure", async () => {
    const opened: Session[] = [];
    const read = async (ref: string) => {
      const session = await openSession({ file: ref }, { mode: "read" });
      opened.push(session);
      if (opened.length > 1) return session;
      let asked = 0;
      vi.spyOn(session, "refresh").mockImplementation(async () => {
        await pause(40 * asked++);
        throw new Error("The file is another one.");
      });
      return session;
    };
    const { url: failing } = await scratch.serve(page, { read });
    const answers = await Promise.all([1, 2, 3].map(() => fetch(`${failing}api/sessions/${KEY}/facts`)));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(opened).toHaveLength(2);
  });

  test("is compressed for clients that accept it", async () => {
    const answer = await get(`api/sessions/${KEY}/outline?from=0&to=1000`, { "accept-encoding": "gzip" });
    expect(answer.headers.get("content-encoding")).toBe("gzip");
  });

  test("describes a bad request, with a code", async () => {
    for (const [path, status, code] of [
      [`api/sessions/${KEY}/nothing`, 404, "not-found"],
      [`api/sessions/${KEY}/constructor`, 404, "not-found"],
      ["api/sessions/nobody/facts", 404, "not-found"],
      ["api/sessions/nobody/events", 404, "not-found"],
      [`api/sessions/${KEY}/context?row=99999`, 404, "unknown-entry"],
      ["api/search?q=", 400, "bad-request"],
      ["api/search?q=x&since=yesterday", 400, "bad-request"],
      [`api/sessions/${KEY}/context?row=x`, 400, "bad-request"],
      [`api/sessions/${KEY}/context?row=-2`, 400, "bad-request"],
      [`api/sessions/${KEY}/gists?from=&to=5`, 400, "bad-request"],
      [`api/sessions/${KEY}/gists?from=0&to=99999`, 400, "bad-request"],
      [`api/sessions/${KEY}/entries?rows=1,b`, 400, "bad-request"],
      [`api/sessions/${KEY}/compaction?row=0`, 404, "unknown-entry"],
      [`api/sessions/${KEY}/export?format=pdf`, 400, "bad-request"],
      [`api/sessions/${KEY}/plan?policy=none`, 400, "bad-request"],
    ] as const) {
      const answer = await get(path);
      const { error } = (await answer.json()) as { error: { code: string; message: string } };
      expect([path, answer.status, error.code]).toEqual([path, status, code]);
      expect(error.message).not.toBe("");
    }
  });

  test("describes a bad change, and makes none", async () => {
    const before = readFileSync(file);
    for (const [act, body, message] of [
      ["label", {}, "`id` is missing."],
      ["label", { id: 5 }, "`id` must be a text."],
      ["fork", { id: "x", position: "after" }, '`position` is "at" or "before".'],
      ["compact", { policy: "none" }, "`policy` must be one of token-budget"],
      ["compact", [], "A change is sent as a JSON object, with that content type."],
    ] as const) {
      const { error } = (await linesOf(await post(writing, act, body))).at(-1);
      expect(error).toMatchObject({ code: "bad-request", message: expect.stringContaining(message) });
    }
    expect(readFileSync(file)).toEqual(before);
  });

  test("has an address for a session whose id is a path", async () => {
    const odd = new Scratch();
    writeFileSync(odd.path("dots.jsonl"), readFileSync(DEMO, "utf8").replaceAll(KEY, ".."));
    const { url: here } = await odd.serve(page);
    const [listed] = (await (await fetch(`${here}api/sessions`)).json()) as ListedForPage[];
    const facts = await fetch(`${here}api/sessions/${encodeURIComponent(listed!.key)}/facts`);
    expect(await facts.json()).toMatchObject({ id: "..", length: 212 });
    await odd.end();
  });

  test("includes entries that others append", async () => {
    const answer = await get(`api/sessions/${KEY}/events`);
    const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
    let told = "";
    const until = async (found: RegExp) => {
      while (!found.test(told)) {
        const { value, done } = await reader.read();
        if (done) throw new Error(`The events ended: ${told}`);
        told += value;
      }
      return found.exec(told)![1]!;
    };
    const before = Number(await until(/"length":(\d+)/));
    const leafId = ((await (await get(`api/sessions/${KEY}/facts`)).json()) as { leafId: string }).leafId;
    const message = { role: "user", content: "appended by somebody else", timestamp: 1 };
    const entry = {
      type: "message",
      id: "foreign1",
      parentId: leafId,
      timestamp: "2026-03-09T00:00:00.000Z",
      message,
    };
    appendFileSync(file, `${JSON.stringify(entry)}\n`);
    await until(new RegExp(`"length":(${before + 1})\\b`));
    await reader.cancel();
  });
});

describe("a change by the server", () => {
  test("is refused if the server was not started with --write", async () => {
    const answer = await post(url, "label", { id: "foreign1", label: "x" });
    expect([answer.status, ((await answer.json()) as { error: { code: string } }).error.code]).toEqual([
      403,
      "read-only",
    ]);
  });

  test("is refused during another one, and says what a user of the page can do", async () => {
    const other = await openSession({ file });
    const [, refused] = await linesOf(await post(writing, "navigate", { id: "foreign1" }));
    await other.close();
    const message = "Another change of this session is running; wait until it ends, or stop it.";
    expect(refused.error).toEqual({ code: "busy", message });
  });

  test("forks a session that another program writes", async () => {
    const other = await openSession({ file });
    const [, forked] = await linesOf(await post(writing, "fork", { id: "foreign1" }));
    await other.close();
    expect(forked.result).toMatchObject({ leafId: "foreign1" });
  });

  test("is refused if it is not JSON, or comes from another site", async () => {
    const form = await fetch(`${writing}api/sessions/${KEY}/label`, { method: "POST", body: "id=x" });
    expect(form.status).toBe(400);
    expect(
      (await post(writing, "label", { id: "foreign1" }, { "sec-fetch-site": "cross-site" })).status,
    ).toBe(403);
    expect((await post(writing, "label", [1])).status).toBe(400);
    expect((await post(writing, "constructor", {})).status).toBe(404);
  });

  test("is refused above 1 MiB, however it is sent", async () => {
    const long = { id: "foreign1", label: "x".repeat(1_200_000) };
    const refused = await post(writing, "label", long);
    expect(refused.status).toBe(413);
    expect(await refused.json()).toMatchObject({ error: { code: "too-large" } });
    const { body } = new Response(JSON.stringify(long));
    const headers = { "content-type": "application/json" };
    const init = { method: "POST", headers, body, duplex: "half" } as RequestInit;
    const streamed = await fetch(`${writing}api/sessions/${KEY}/label`, init);
    expect(streamed.status).toBe(413);
    expect(await streamed.json()).toMatchObject({ error: { code: "too-large" } });
  });

  test("is aborted when the client stops reading", async () => {
    const begun = new EventEmitter();
    const slow = summarizer((_, signal) => {
      begun.emit("signal", signal);
      return new Promise((_, refuse) => signal!.addEventListener("abort", () => refuse(signal!.reason)));
    });
    const write: ViewerSessions["write"] = (ref) => openSession({ file: ref }, { summarizer: slow });
    const server = await serveViewer({
      sessions: { ...sessionsIn(scratch.folder), write },
      page,
      write: true,
    });
    const order = { id: "kpg9JT9KkzGf", summarize: true };
    const asked = once(begun, "signal") as Promise<[AbortSignal]>;
    const reader = (await post(server.url, "navigate", order)).body!.getReader();
    const [signal] = await asked;
    await reader.cancel();
    if (!signal.aborted) await once(signal, "abort");
    await server.close();
  });

  test("labels, hides, navigates, forks and compacts like the engine", async () => {
    const [, labelled] = await linesOf(
      await post(writing, "label", { id: "foreign1", label: "from the page" }),
    );
    expect(labelled.result.entryId).toBeTypeOf("string");
    const [, forked] = await linesOf(await post(writing, "fork", { id: "foreign1" }));
    expect(forked.result.leafId).toBe("foreign1");
    const [, hidden] = await linesOf(await post(writing, "hide", { id: "foreign1" }));
    expect(hidden.result.entryId).toBeTypeOf("string");
    const [, shown] = await linesOf(await post(writing, "show", { id: "foreign1" }));
    expect(shown.result.entryId).toBeTypeOf("string");
    const [, moved] = await linesOf(await post(writing, "navigate", { id: "kpg9JT9KkzGf" }));
    expect(moved.result.editorText).toContain("I maintain tidepool");
    const [, compacted] = await linesOf(await post(writing, "compact", {}));
    expect(compacted.result.eligible).toBe(false);
    const [, failed] = await linesOf(await post(writing, "navigate", { id: "nobody" }));
    expect(failed.error.code).toBe("unknown-entry");
    const [refused] = (
      await linesOf(await post(writing, "fork", { id: "foreign1", position: "behind" }))
    ).slice(-1);
    expect(refused.error.code).toBe("bad-request");
    const session = await openSession({ file }, { mode: "read" });
    expect(session.getLabel("foreign1")).toBe("from the page");
    await session.close();
  });
});
