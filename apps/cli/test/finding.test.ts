import { copyFileSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import {
  DEMO,
  espalier,
  espalierJson,
  HEADER,
  said,
  sessionOf,
  stateOf,
  temporaryFolder,
} from "./espalier.ts";

const SESSION_ID = "LTfrBGnUynOG";

describe("a session by its id", () => {
  const id = "5f1c7a52-8d3e-4b3a-9c0d-0123456789ab";
  const home = temporaryFolder();
  const env = { ESPALIER_HOME: home };
  const put = (name: string, fields: object = {}) => {
    const file = join(home, "sessions", "garden", `2026-01-01T00-00-00-000Z_${name}.jsonl`);
    mkdirSync(join(home, "sessions", "garden"), { recursive: true });
    writeFileSync(file, `${JSON.stringify({ ...HEADER, id: name, ...fields })}\n`);
    return file;
  };
  const treeOf = async (word: string) => (await espalierJson(["tree", word], { env })).value;

  test("opens as a list prints it, whole or shortened, also when it had sub-agents", async () => {
    const file = put(id);
    const agents = ["a", "b"].map((agent) =>
      put(`${id}.agent-${agent}`, { parent: { sessionId: id, entryId: null, kind: "subagent" } }),
    );
    const { stdout } = await espalier(["list"], { env });
    const [printed] = /^5f1c\S*/m.exec(stdout)!;
    const [listed] = (await espalierJson(["list"], { env })).values;
    for (const word of [printed, listed.id, "5f1c"])
      expect(await treeOf(word)).toMatchObject({ session: { id, file } });
    expect(await treeOf(`${id}.agent-a`)).toMatchObject({ session: { file: agents[0] } });
    expect(await treeOf(`${id}.agent-`)).toMatchObject({ error: { code: "not-found" } });
  });

  test("is printed as short as is unique, also for sub-agents, and every command accepts it", async () => {
    const uuids = ["01a1ffe6-7b96-7352-9763-ae66a9453f24", "01a1ffe6-7d80-7a53-9388-92834c789141"];
    const [first, second] = uuids as [string, string];
    for (const each of uuids) put(each);
    const run = `${first}.agent-a04869a0ad03ae043`;
    put(run, { parent: { sessionId: first, entryId: null, kind: "subagent" } });
    const { stdout } = await espalier(["list", "--sub-agents"], { env });
    const printed = stdout.match(/^01a1\S*/gm);
    expect(printed?.toSorted()).toEqual(["01a1ffe6-7b", "01a1ffe6-7b.agent-a0", "01a1ffe6-7d"]);
    expect(stdout).toMatch(/^5f1c7a52 /m);
    const own = (await espalier(["list"], { env })).stdout;
    expect(own).toMatch(/\nand 3 runs of sub-agents: --sub-agents lists them\n$/);
    for (const [word, whole] of [
      ["01a1ffe6-7b", first],
      ["01a1ffe6-7d", second],
      ["01a1ffe6-7b.agent-a0", run],
    ])
      expect(await treeOf(word!)).toMatchObject({ session: { id: whole } });
  });

  test("matches a beginning only if it is unique", async () => {
    put("user-12");
    expect(await treeOf("user-1")).toMatchObject({ session: { id: "user-12" } });
    put("user-13");
    expect(await treeOf("user-1")).toMatchObject({
      error: { code: "not-found", message: expect.stringContaining("user-12") },
    });
    put("user-1");
    expect(await treeOf("user-1")).toMatchObject({ session: { id: "user-1" } });
    expect(await treeOf("nobody")).toMatchObject({ error: { code: "not-found" } });
  });

  test("that two files share is reported with their names", async () => {
    const file = put("twice");
    const copy = join(home, "sessions", "garden", "copy.jsonl");
    copyFileSync(file, copy);
    const { error } = await treeOf("twice");
    expect(error.code).toBe("ambiguous");
    for (const each of [file, copy]) expect(error.message).toContain(each);
    expect(await treeOf(copy)).toMatchObject({ session: { id: "twice", file: copy } });
  });
});

describe("the last entry of a session determines its time", () => {
  const home = temporaryFolder();
  const day = (back: number) => new Date(Date.now() - back * 86_400_000).toISOString();

  /** A session in a file that was written just now. */
  function session(
    id: string,
    back: number,
    { agent = "", cwd = "/garden", text = "What grows here?" } = {},
  ) {
    const folder = join(home, "sessions", "all");
    mkdirSync(folder, { recursive: true });
    const importedFrom = agent === "" ? {} : { importedFrom: { agent, version: "1", id, digest: "d" } };
    const timestamp = day(back);
    const lines = [
      { type: "session", version: 3, id, timestamp, cwd, ...importedFrom },
      {
        type: "message",
        id: `e-${id}`,
        parentId: null,
        timestamp,
        message: { role: "user", content: text, timestamp: Date.parse(timestamp) },
      },
    ];
    writeFileSync(join(folder, `${id}.jsonl`), lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  }
  const env = { ESPALIER_HOME: home };
  const listed = async (...parameters: string[]) =>
    (await espalierJson(["list", ...parameters], { env })).values.map(({ id }) => id);
  const found = async (...parameters: string[]) =>
    (await espalierJson(["search", "grows", ...parameters], { env })).values.map(
      ({ sessionId }) => sessionId,
    );

  beforeAll(() => {
    session("week", 7.5, { agent: "claude-code", cwd: "/home/ada/orchard/pears" });
    session("today", 0, { cwd: "C:\\Users\\ada\\orchard" });
    session("month", 31, { agent: "codex" });
    session("three", 3, {
      agent: "pi",
      text: "<command-name>/clear</command-name>\n<command-args></command-args>",
    });
  });

  test("list shows the newest sessions first, whatever the order of their files", async () => {
    expect(await listed()).toEqual(["today", "three", "week", "month"]);
    const { stdout } = await espalier(["list"], { env });
    const { updatedAt } = (await espalierJson(["list", "--agent", "claude-code"], { env })).value;
    const date = new Date(updatedAt).toLocaleDateString("sv-SE");
    expect(stdout).toMatch(new RegExp(`^week +${date} +claude-code +pears +What grows here\\?$`, "m"));
    expect(stdout).toMatch(/^id +updated +agent +project +session\ntoday +now +espalier +orchard +What/);
    expect(stdout).toMatch(/^three +3 days +pi +garden +\(no prompt yet\)$/m);
  });

  test("the project of a worktree is its repository", async () => {
    const folders = {
      "/home/ada/cli/.worktrees/1": "cli",
      "/home/ada/cli/.worktrees/fix/src": "cli",
      "C:\\work\\engine\\.claude\\worktrees\\calm-tide": "engine",
      "/home/ada/worktrees/1": "1",
    };
    const each = temporaryFolder();
    for (const [at, cwd] of Object.keys(folders).entries())
      writeFileSync(join(each, `${at}.jsonl`), `${JSON.stringify({ ...HEADER, id: `at-${at}`, cwd })}\n`);
    const { stdout } = await espalier(["list", each]);
    for (const [at, name] of Object.values(folders).entries())
      expect(stdout).toMatch(new RegExp(`^at-${at} +2026-01-01 +espalier +${name} `, "m"));
  });

  test("search shows the newest sessions first, each under its date, agent, project and title", async () => {
    expect(await found()).toEqual(["today", "week", "month"]);
    const { stdout } = await espalier(["search", "grows"], { env });
    expect(stdout.split("\n\n")).toEqual([
      expect.stringMatching(
        /^today {2}now {2}espalier {2}orchard {2}What grows here\?\n {2}e-today {2}user /,
      ),
      expect.stringMatching(/^week {2}\d{4}-\d\d-\d\d {2}claude-code {2}pears {2}What grows here\?\n/),
      expect.stringMatching(/^month {2}\d{4}-\d\d-\d\d {2}codex {2}garden {2}What grows here\?\n/),
    ]);
  });

  test("list and search filter by time, agent and project", async () => {
    expect(await listed("--since", "1w")).toEqual(["today", "three"]);
    expect(await listed("--since", "2w", "--until", "1d")).toEqual(["three", "week"]);
    expect(await listed("--until", day(31).slice(0, 10))).toEqual(["month"]);
    expect(await listed("--agent", "codex")).toEqual(["month"]);
    expect(await listed("--project", "orchard")).toEqual(["today", "week"]);
    expect(await listed("--project", "/home/ada/orchard")).toEqual(["week"]);
    expect(await listed("--project", "C:\\Users\\ada")).toEqual(["today"]);
    // A folder of Windows is not relative to the folder of the command, and an unknown folder is no project.
    session("unknown", 60, { cwd: "" });
    expect(await listed("--project", ".")).toEqual([]);
    expect(await found("--project", "./")).toEqual([]);
    rmSync(join(home, "sessions", "all", "unknown.jsonl"));
    expect(await found("--since", "2w")).toEqual(["today", "week"]);
    expect(await found("--agent", "espalier", "--project", "orchard")).toEqual(["today"]);
  });

  test("an invalid time and an unknown agent are reported with the allowed values", async () => {
    const none = await espalier(["list", "--since", "yesterday"], { env });
    expect([none.code, none.stderr]).toEqual([2, expect.stringContaining("3d, 1w, 2m or 2026-11-20")]);
    expect((await espalier(["search", "x", "--agent", "cursor"], { env })).stderr).toContain("claude-code");
  });
});

describe("search", () => {
  test("--json has a line for each entry that contains the words", async () => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, "below"));
    const file = join(folder, "below", "copy.jsonl");
    copyFileSync(DEMO, file);
    const before = stateOf(file);
    const { code, values } = await espalierJson(["search", "LAST-modified", folder]);
    expect(code).toBe(0);
    expect(values[0]).toEqual({
      file,
      sessionId: SESSION_ID,
      entryId: "Rhvf8BUv6hkP",
      role: "assistant",
      snippet: expect.stringContaining("`ETag` or `Last-Modified`"),
      onPath: false,
    });
    expect(values.some(({ onPath }) => onPath)).toBe(true);
    const { values: limited } = await espalierJson(["search", "last-modified", file, "--limit", "1"]);
    expect(limited).toEqual([values[0]]);
    const exact = await espalierJson(["search", "LAST-modified", folder, "--case-sensitive"]);
    expect(exact).toMatchObject({ code: 1, stdout: "" });
    expect(stateOf(file)).toBe(before);
  });

  test("without a folder it searches the sessions of the home", async () => {
    const home = temporaryFolder();
    mkdirSync(join(home, "sessions"));
    copyFileSync(DEMO, join(home, "sessions", "s.jsonl"));
    const { stdout } = await espalier(["search", "no-store"], { env: { ESPALIER_HOME: home } });
    expect(stdout).toMatch(
      /^LTfrBGnUynOG {2}2026-03-\d\d {2}espalier {2}tidepool {2}tidepool works offline 🌊\n {2}\w{12} {2}/,
    );
    expect(stdout).toMatch(/^ {2}\w{12} {2}assistant \(another branch\) {2}.*no-store/m);
  });

  test("ids of entries are as short as is unique in their session, and name the entry", async () => {
    const ids = ["01ae8323-3017", "01ae8323-4c5d", "7f0f11ca-9b1c"].map(
      (start) => `${start}-40c5-a344-05b54fc9e216`,
    );
    const lines = ids.map((id, at) => said(id, ids[at - 1] ?? "LTfrBGnUynOG", `The gate ${at}`));
    const file = sessionOf(HEADER, said("LTfrBGnUynOG", null, "A gate"), ...lines);
    const { stdout } = await espalier(["search", "gate", file]);
    expect(stdout).toBe(
      "LTfrBGnUynOG  user        A gate\n01ae8323-3  user        The gate 0\n01ae8323-4  user        The gate 1\n7f0f11ca  user        The gate 2\n",
    );
    for (const [at, word] of ["01ae8323-3", "01ae8323-4", "7f0f11ca"].entries())
      expect((await espalierJson(["show", file, word])).value.id).toBe(ids[at]);
  });

  test("a place can be the id of a session; the second word of an unquoted query is reported as a place", async () => {
    const home = temporaryFolder();
    mkdirSync(join(home, "sessions"));
    copyFileSync(DEMO, join(home, "sessions", "s.jsonl"));
    const env = { ESPALIER_HOME: home };
    const inOne = await espalierJson(["search", "no-store", "LTfrB"], { env });
    expect(inOne.values.map(({ sessionId }) => sessionId)).toContain(SESSION_ID);
    const unquoted = await espalier(["search", "disk", "full"], { env });
    expect([unquoted.code, unquoted.stderr]).toEqual([
      1,
      '"full" is no folder, file or session. For a query of several words, use quotes: `espalier search "disk full"`.\n',
    ]);
    expect((await espalier(["search", "no-store", "LTfrX"], { env })).stderr).toContain("Did you mean LTfrB");
    for (const command of [
      ["search", "disk", "is", "full"],
      ["history", DEMO, "disk", "full"],
    ]) {
      const many = await espalier(command, { env });
      expect([many.code, many.stderr]).toEqual([
        2,
        expect.stringContaining(`Put a query of several words between quotes: "disk full".`),
      ]);
    }
  });

  test("no result is an answer; a missing folder or query is an error", async () => {
    expect(await espalier(["search", "no such words", DEMO])).toMatchObject({
      code: 1,
      stdout: "Nothing was found.\n",
    });
    const line = { type: "user", uuid: "u1", sessionId: "s", message: { content: "no such" } };
    const request = { type: "api-request", sessionId: "s", id: "r1", timestamp: "2026-01-01T00:00:00.000Z" };
    const folder = dirname(sessionOf(request, line));
    const imported = `Those of other agents need an import: \`espalier import ${folder}\`.`;
    const ofProject = `--project ${folder}`;
    expect(await espalier(["search", "no such", folder])).toMatchObject({
      code: 1,
      stdout: `Nothing was found.\nNo session files are in ${folder}. ${imported} For the sessions that worked there: \`espalier search "no such" ${ofProject}\`.\n`,
    });
    expect(await espalier(["list", folder])).toMatchObject({
      code: 0,
      stdout: `No session files are in ${folder}. ${imported} For the sessions that worked there: \`espalier list ${ofProject}\`.\n`,
    });
    const nowhere = await espalierJson(["search", "x", "/nowhere"]);
    expect([nowhere.code, nowhere.value.error.code]).toEqual([1, "not-found"]);
    const empty = await espalierJson(["search", "", DEMO]);
    expect([empty.code, empty.value.error.code]).toEqual([1, "bad-input"]);
    expect((await espalier(["search", "x", DEMO, "--limit", "0"])).code).toBe(2);
  });
});

describe("history", () => {
  test("--json has the original entries, oldest first, with their state in the context", async () => {
    const { values } = await espalierJson(["history", DEMO, "noaa ETag"]);
    expect(Object.keys(values[0])).toEqual(["entryId", "text", "covered", "onPath"]);
    expect(values).toContainEqual({
      entryId: "Ng1Ocsqz18Ns",
      text: expect.stringContaining("what does NOAA send in terms of ETag"),
      covered: false,
      onPath: false,
    });
    expect(values.some(({ covered, onPath }) => covered && onPath)).toBe(true);
    const { values: newest } = await espalierJson(["history", DEMO, "noaa etag", "--limit", "1"]);
    expect(newest).toEqual([values.at(-1)]);
  });

  test("people see the role of each message and whether a summary replaces it", async () => {
    const { stdout } = await espalier(["history", DEMO, "noaa etag"]);
    expect(stdout).toMatch(/^user Ng1Ocsqz18Ns · 2026-03-07 .* · on another branch$/m);
    expect(stdout).toMatch(/^branchSummary \w{12} · .* · covered by a summary$/m);
    expect((await espalier(["history", DEMO, "zebra"])).stdout).toBe("No message matches.\n");
  });

  test("people see the searched words of a long message, with the number of lines around them", async () => {
    const lines = Array.from({ length: 40 }, (_, at) => `line ${at}`);
    lines[30] = `${"rope ".repeat(60)}the harbour master`;
    const file = sessionOf(HEADER, said("u1", null, lines.join("\n")), said("u2", "u1", "A harbour.\nb\nc"));
    const [long, short] = (await espalier(["history", file, "HARBOUR"])).stdout.split("\n\n");
    expect(long?.split("\n").slice(1)).toEqual([
      "  … 29 lines before",
      "  line 29",
      expect.stringMatching(/^ {2}….*rope the harbour master$/),
      ...[31, 32, 33, 34].map((at) => `  line ${at}`),
      "  … 5 more lines",
    ]);
    expect(short?.trimEnd().split("\n").slice(1)).toEqual(["  A harbour.", "  b", "  c"]);
  });

  test("a message of many thousand lines is searched", async () => {
    const numbers = Array.from({ length: 150_000 }, (_, at) => at).join("\n");
    const file = sessionOf(HEADER, said("u1", null, `${numbers}\nharbour`));
    const { stdout } = await espalier(["history", file, "harbour"]);
    expect(stdout).toContain("  … 149,999 lines before\n  149999\n  harbour\n");
  });
});

describe("diff", () => {
  test("counts the bookkeeping of a branch; --all shows each entry", async () => {
    const state = (id: string, parentId: string) => ({
      type: "custom",
      id,
      parentId,
      timestamp: HEADER.timestamp,
      customType: "agent.state",
      data: { step: id },
    });
    const file = sessionOf(
      HEADER,
      said("root", null, "Fix the parser"),
      state("state1", "root"),
      said("tests", "state1", "Write the tests first"),
      state("state2", "tests"),
      said("stack", "root", "Use a stack"),
      state("state3", "stack"),
    );
    const { stdout } = await espalier(["diff", file, "state2", "state3"]);
    expect(stdout).not.toContain("agent.state");
    expect(stdout).toContain("Write the tests first\n  2 entries of bookkeeping; --all shows them\n");
    expect(stdout).toContain("Use a stack\n  1 entry of bookkeeping; --all shows it\n");
    const all = await espalier(["diff", file, "state2", "state3", "--all"]);
    expect(all.stdout.match(/agent\.state/g)).toHaveLength(3);
    expect(all.stdout).not.toContain("bookkeeping");
    const { value } = await espalierJson(["diff", file, "state2", "state3"]);
    expect(value.a.entryIds).toEqual(["state1", "tests", "state2"]);
  });

  test("--json lists the entries that only one branch has", async () => {
    const { value } = await espalierJson(["diff", DEMO, "maybe-one-day", "http-cache-dead-end"]);
    expect(Object.keys(value)).toEqual(["commonAncestorId", "a", "b"]);
    expect(value.commonAncestorId).toBe("vPdDiWYGH0ya");
    expect(Object.keys(value.a)).toEqual([
      "leafId",
      "entryIds",
      "messages",
      "tokens",
      "cost",
      "estimated",
      "files",
    ]);
    expect(value.a).toMatchObject({ leafId: "RiocuZcfSLbB", messages: 4, files: [] });
    expect(value.b.entryIds).toHaveLength(18);
    expect(value.b.files).toContain("src/http-cache.ts");
    expect(value.b.cost).toBeCloseTo(0.0502, 4);
  });

  test("people see the fork, the figures side by side, and the messages", async () => {
    const { stdout } = await espalier(["diff", DEMO, "maybe-one-day", "start"]);
    expect(stdout).toContain("The branches have no entry in common.");
    expect(stdout).toMatch(/^entries +\d+ +0$/m);
    expect(stdout).toContain("Only on the branch of start:\n  nothing\n");
    expect(stdout).toMatch(/^Only on the branch of RiocuZcfSLbB:\n {2}\w{12} \w+ {2}\S/m);
    expect((await espalierJson(["diff", DEMO, "nobody", "leaf"])).value.error.code).toBe("unknown-entry");
  });
});

describe("stats", () => {
  test("damaged entries may be missing in the figures, and a warning says so", async () => {
    const file = sessionOf(HEADER, said("a1", null, "one"), "not json", said("a2", "a1", "two"));
    for (const parameters of [
      ["stats", file],
      ["diff", file, "a1", "a2"],
    ])
      expect((await espalier(parameters)).stderr).toBe(
        `1 line is damaged; \`espalier doctor ${file}\` shows the details.\n`,
      );
  });

  test("calls without a price are not counted as free", async () => {
    const free = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
    const usage = { input: 9, output: 3, cacheRead: 0, cacheWrite: 0, totalTokens: 12, cost: free };
    const answer = { role: "assistant", content: [], provider: "p", model: "m", stopReason: "stop", usage };
    const file = sessionOf(HEADER, { ...said("a1", null, ""), message: answer });
    expect((await espalier(["stats", file])).stdout).toMatch(/^1 call; its cost is unknown\n/);
  });

  test("--json has usage and cost, in total and by model, and compactions over time", async () => {
    const { value } = await espalierJson(["stats", DEMO]);
    expect(Object.keys(value)).toEqual([
      "calls",
      "usage",
      "cost",
      "estimated",
      "unpriced",
      "recordedCost",
      "path",
      "branches",
      "models",
      "kinds",
      "compactions",
      "cache",
      "subAgents",
      "withSubAgents",
    ]);
    expect(value.cache).toEqual({ breaks: 14, tokens: 194_713, lost: expect.closeTo(0.6034, 4) });
    expect(Object.keys(value.usage)).toEqual(["input", "output", "cacheRead", "cacheWrite", "totalTokens"]);
    expect(value.branches).toHaveLength(6);
    expect(value.kinds.map(({ kind }: { kind: string }) => kind).sort()).toEqual([
      "answer",
      "branch_summary",
      "cache_warm",
      "compaction",
    ]);
    for (const groups of [value.models, value.kinds]) {
      const sum = groups.reduce((total: number, { cost }: { cost: number }) => total + cost, 0);
      expect(sum).toBeCloseTo(value.cost, 9);
    }
    expect(value.compactions).toEqual([
      {
        entryId: "nrT0ch0vvELC",
        estimated: false,
        timestamp: expect.stringMatching(/^2026-03-08T/),
        tokensBefore: 21126,
        tokensAfter: 5898,
        removed: 78,
        durationMs: expect.any(Number),
        policy: "token-budget",
        source: "model",
        cost: expect.closeTo(0.0533, 4),
        onPath: true,
      },
    ]);
  });

  test("people see tables", async () => {
    const { stdout } = await espalier(["stats", DEMO]);
    expect(stdout).toMatch(/^\$1\.34 for 76 calls, of which \$1\.15 on the path of the leaf$/m);
    expect(stdout).toMatch(/^nrT0ch0vvELC .* 21,126 → 5,898 +78 messages/m);
  });
});

describe("cache", () => {
  test("--json has each break with its entry, its price and its cause", async () => {
    const { value } = await espalierJson(["cache", DEMO]);
    expect(Object.keys(value)).toEqual(["calls", "breaks", "cost", "byCause", "requests", "subAgents"]);
    expect([value.calls, value.requests.length, value.breaks.length]).toEqual([72, 72, 14]);
    expect(value.breaks).toContainEqual({
      call: expect.any(String),
      entryId: "nrT0ch0vvELC",
      tokens: 9770,
      cost: expect.closeTo(0.0337, 4),
      cause: "compaction",
    });
    expect(value.cost).toEqual({
      estimated: false,
      total: expect.closeTo(1.27, 2),
      lost: expect.closeTo(0.6034, 4),
    });
    expect(value.byCause.pause).toMatchObject({ breaks: 6 });
    // Entries that the provider keeps for an hour outlive most pauses of this session.
    const hour = (await espalierJson(["cache", DEMO, "--life", "60"])).value;
    expect(hour.byCause.pause.breaks).toBeLessThan(6);
  });

  test("people see totals by cause, then each break with its entry; stats has a line", async () => {
    const line = "Prompt cache: 14 of 72 calls paid again for 194,713 tokens: $0.6034 of $1.27.";
    const { stdout } = await espalier(["cache", DEMO]);
    expect(stdout.split("\n")[0]).toBe(line);
    expect(stdout).toMatch(/^a pause +6 +99,647 +\$0\.3437$/m);
    expect(stdout).toMatch(/9,770 tokens, \$0\.0337: a compaction\n {2}nrT0ch0vvELC compaction {2}\S/);
    expect((await espalier(["stats", DEMO])).stdout).toContain(`${line}\n`);
  });

  test("a session without calls has no break; a lifetime must be above 0 minutes", async () => {
    const file = sessionOf(HEADER, said("a1", null, "one"));
    expect((await espalier(["cache", file])).stdout).toBe("Prompt cache: no break in 0 calls.\n");
    expect((await espalier(["cache", file, "--life", "no"])).stderr).toContain("Expected minutes above 0");
  });
});

test("stats of a fork separates the calls that were paid in the session it was copied from", async () => {
  const out = join(temporaryFolder(), "fork.jsonl");
  await espalier(["fork", DEMO, "leaf", "--out", out]);
  const before = (await espalierJson(["stats", out])).value;
  const { calls, usage, cost } = before;
  expect(calls).toBeGreaterThan(1);
  expect(before.forkOf.copied).toMatchObject({ calls, usage, cost });
  const answer = {
    role: "assistant",
    content: [{ type: "text", text: "Low water is at six." }],
    provider: "anthropic",
    model: "claude-sonnet-4-5",
    stopReason: "stop",
    usage: {
      input: 1_000,
      output: 100,
      cacheRead: 0,
      cacheWrite: 0,
      totalTokens: 1_100,
      cost: { total: 0.25 },
    },
  };
  await espalier(["append", out], { stdin: `${JSON.stringify(answer)}\n` });
  const after = (await espalierJson(["stats", out])).value;
  expect(after.forkOf.copied).toEqual(before.forkOf.copied);
  expect(after.calls).toBe(calls + 1);
  const { stdout } = await espalier(["stats", out]);
  expect(stdout).toMatch(
    new RegExp(
      `^Before the fork: .*${calls} calls, which the other session counts too\\. Since the fork: \\$0\\.2500 for 1 call\\.$`,
      "m",
    ),
  );
  // In a list, each call is counted once: in the session that made it.
  const home = temporaryFolder();
  mkdirSync(join(home, "sessions"));
  copyFileSync(DEMO, join(home, "sessions", "origin.jsonl"));
  copyFileSync(out, join(home, "sessions", "fork.jsonl"));
  const env = { ESPALIER_HOME: home };
  const listed = (await espalierJson(["list", "--cost"], { env })).values;
  const costOf = (isFork: boolean) =>
    listed.find(({ parent }) => (parent?.kind === "fork") === isFork).cost as number;
  expect(costOf(true)).toBeCloseTo(0.25, 6);
  expect(costOf(false)).toBeCloseTo((await espalierJson(["stats", DEMO])).value.cost, 6);
  expect((await espalier(["list", "--cost"], { env })).stdout).toContain(" $0.2500 ");
});

test("the cost of sub-agents at any depth is added to the session that started them", async () => {
  const bill = (id: string, total: number) => {
    const cost = { input: total, output: 0, cacheRead: 0, cacheWrite: 0, total };
    const usage = { input: 100, output: 3, cacheRead: 0, cacheWrite: 0, totalTokens: 103, cost };
    const content: unknown[] = [];
    const message = { role: "assistant", content, provider: "p", model: "m", stopReason: "stop", usage };
    return { ...said(id, null, ""), message };
  };
  const file = sessionOf({ ...HEADER, id: "boss" }, bill("a1", 1));
  const home = temporaryFolder();
  mkdirSync(join(home, "sessions"));
  const env = { ESPALIER_HOME: home };
  const run = (id: string, parent: string, total: number, kind = "subagent") =>
    writeFileSync(
      join(home, "sessions", `${id}.jsonl`),
      [{ ...HEADER, id, parent: { sessionId: parent, entryId: null, kind } }, bill("b1", total)]
        .map((line) => `${JSON.stringify(line)}\n`)
        .join(""),
    );
  run("scout", "boss", 0.5);
  run("helper", "scout", 0.25);
  // A fork has the lines of its source: they were paid for once. Others' sub-agents are theirs.
  run("fork", "boss", 8, "fork");
  run("stranger", "another", 8);
  const { value } = await espalierJson(["stats", file], { env });
  expect([value.cost, value.withSubAgents]).toMatchObject([1, { calls: 3, cost: 1.75 }]);
  expect(value.subAgents).toMatchObject([
    { id: "scout", cost: 0.5, calls: 1 },
    { id: "helper", cost: 0.25, calls: 1 },
  ]);
  expect((await espalier(["stats", file], { env })).stdout).toMatch(
    /^\$1\.00 for 1 call\n2 sub-agents: 2 calls, 206 tokens, \$0\.7500; \$1\.75 in total\n/,
  );
  expect((await espalierJson(["cache", file], { env })).value.subAgents).toMatchObject([
    { id: "scout", total: 0.5, lost: 0 },
    { id: "helper", total: 0.25, lost: 0 },
  ]);
});

test("each help text ends with examples", async () => {
  for (const command of ["search", "history", "diff", "stats", "cache"]) {
    const { stdout } = await espalier([command, "--help"]);
    expect(stdout).toMatch(new RegExp(`Examples:\\n {2}espalier ${command} `));
  }
});
