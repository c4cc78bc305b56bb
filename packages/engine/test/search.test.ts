import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createSession, type SearchHit, type SearchOptions, searchSessions } from "@espalier/engine";
import { memoryStore } from "@espalier/session-tree";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";

const home = mkdtempSync(join(tmpdir(), "espalier-search-"));
afterAll(() => rmSync(home, { recursive: true, force: true }));

let files = 0;

/** A session file with these lines behind its header. */
function sessionFile(lines: readonly string[], folder = home): string {
  const file = join(folder, `s${files++}.jsonl`);
  const header = {
    type: "session",
    version: 3,
    id: `session-${String(files).padStart(6, "0")}`,
    timestamp: TIME,
    cwd: "/project",
  };
  writeFileSync(file, [JSON.stringify(header), ...lines, ""].join("\n"));
  return file;
}

/** Bytes that are searched at a time. */
const BLOCK = 64 * 1024;

const TIME = "2026-01-01T00:00:00.000Z";

const entryOf = (id: string, parentId: string | null, message: object) => ({
  type: "message",
  id,
  parentId,
  timestamp: TIME,
  message: { timestamp: 1, ...message },
});

const said = (id: string, parentId: string | null, content: string) =>
  entryOf(id, parentId, { role: "user", content });

async function found(query: string, options: SearchOptions): Promise<SearchHit[]> {
  const hits: SearchHit[] = [];
  for await (const hit of searchSessions(query, options)) hits.push(hit);
  return hits;
}

const idsOf = async (query: string, options: SearchOptions) =>
  (await found(query, options)).map(({ entryId }) => entryId);

describe("searching messages", () => {
  test("finds messages, calls, results and summaries at any position, with their position", async () => {
    const file = sessionFile(
      [
        said("u1", null, "Where does the Heron nest?"),
        entryOf("a1", "u1", {
          role: "assistant",
          content: [
            { type: "thinking", thinking: "heron, in thoughts alone" },
            { type: "toolCall", id: "c1", name: "grep", arguments: { deep: [{ pattern: "a heron" }] } },
          ],
        }),
        entryOf("r1", "a1", {
          role: "toolResult",
          toolCallId: "c1",
          toolName: "grep",
          content: [{ type: "text", text: "birds.md: HERONS breed in March" }],
        }),
        entryOf("b1", "r1", { role: "bashExecution", command: "ls", output: "heron.md" }),
        said("u2", "a1", "Another branch, without the bird."),
        {
          type: "branch_summary",
          id: "s1",
          parentId: "b1",
          timestamp: TIME,
          summary: "No heron.",
          fromId: "u2",
        },
        {
          type: "compaction",
          id: "k1",
          parentId: "s1",
          timestamp: TIME,
          summary: "Herons.",
          firstKeptEntryId: "k1",
          tokensBefore: 9,
        },
        {
          type: "custom_message",
          id: "m1",
          parentId: "u2",
          timestamp: TIME,
          customType: "x",
          content: "heron",
        },
        { type: "label", id: "l1", parentId: "k1", timestamp: TIME, targetId: "u1", label: "heron" },
        { type: "leaf", id: "f1", parentId: "k1", timestamp: TIME, targetId: "k1" },
      ].map((line) => JSON.stringify(line)),
    );
    const hits = await found("heron", { files: [file] });
    expect(hits.map(({ entryId, role, onPath }) => [entryId, role, onPath])).toEqual([
      ["u1", "user", true],
      ["a1", "assistant", true],
      ["r1", "toolResult", true],
      ["b1", "bashExecution", true],
      ["s1", "branchSummary", true],
      ["k1", "compactionSummary", true],
      ["m1", "custom", false],
    ]);
    expect(hits[0]).toMatchObject({ file, snippet: "Where does the Heron nest?" });
    expect(hits[0]!.sessionId).toMatch(/^session-/);
  });

  test("ignores the case of every letter unless requested", async () => {
    const file = sessionFile(
      ["Größe", "grÖße", "GRöSSE"].map((text, at) =>
        JSON.stringify(said(`u${at}`, at ? `u${at - 1}` : null, text)),
      ),
    );
    expect(await idsOf("grö", { files: [file] })).toEqual(["u0", "u1", "u2"]);
    expect(await idsOf("ÖSS", { files: [file] })).toEqual(["u2"]);
    expect(await idsOf("Grö", { files: [file], caseSensitive: true })).toEqual(["u0"]);
  });

  test("finds every entry of a line with lost newlines, each once", async () => {
    const words = (id: string, parentId: string | null, text = "a heron") =>
      JSON.stringify(said(id, parentId, text));
    const file = sessionFile([
      words("u1", null),
      words("u2", "u1") + words("u3", "u2", "nothing") + words("u4", "u3"),
      words("u1", null) + words("u5", "u4"),
      `${words("u6", "u5").slice(0, -5)}${words("u7", "u5")}`,
    ]);
    expect(await idsOf("heron", { files: [file] })).toEqual(["u1", "u2", "u4", "u5", "u7"]);
    expect(await idsOf("nothing", { files: [file] })).toEqual(["u3"]);
  });

  test("a snippet is one line with the surrounding text, and splits no character", async () => {
    const file = sessionFile([
      JSON.stringify(said("u1", null, `${"🌊".repeat(80)}\n\nneedle\t${"🌾".repeat(80)}`)),
    ]);
    const [hit] = await found("needle", { files: [file] });
    expect(hit!.snippet).toMatch(/^…🌊+ needle 🌾+…$/u);
    expect(hit!.snippet.length).toBeLessThan(140);
  });

  test("lines longer than a block are searched to their end, and each is reported once", async () => {
    const long = "x".repeat(20 * BLOCK);
    const file = sessionFile([
      JSON.stringify(said("u1", null, `needle ${long} needle`)),
      JSON.stringify(said("u2", "u1", `${long} needle`)),
      JSON.stringify(said("u3", "u2", "needle")),
    ]);
    expect(await idsOf("needle", { files: [file] })).toEqual(["u1", "u2", "u3"]);
  });

  test("a match across two blocks is found, at any cut", async () => {
    const first = (length: number) => JSON.stringify(said("u1", null, "x".repeat(length)));
    const second = JSON.stringify(said("u2", "u1", "needle"));
    const before = (file: string) => readFileSync(file).indexOf("needle");
    const short = before(sessionFile([first(0), second]));
    for (const cutAt of [0, 1, 3, 5, 6]) {
      const file = sessionFile([first(BLOCK - cutAt - short), second]);
      expect(before(file)).toBe(BLOCK - cutAt);
      expect(await idsOf("needle", { files: [file] })).toEqual(["u2"]);
    }
  });

  test("property: it equals a search of the parsed texts, for any escaping in the file", async () => {
    const letters = fc.constantFrom(..."abAB \"\\/\n\t<&'é€🌊ñÑяЯ𐐀𐐨\u0001{}[].*+?^$()|-");
    const text = fc.array(letters, { maxLength: 12 }).map((parts) => parts.join(""));
    const writer = fc.constantFrom(...WRITERS);
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(text, writer), { minLength: 1, maxLength: 8 }),
        fc.array(letters, { minLength: 1, maxLength: 4 }).map((parts) => parts.join("")),
        fc.boolean(),
        async (messages, query, caseSensitive) => {
          const file = sessionFile(
            messages.map(([content, write], at) => write(said(`#${at}`, at ? `#${at - 1}` : null, content))),
          );
          const fold = (value: string) => (caseSensitive ? value : value.toLowerCase());
          const expected = messages.flatMap(([content], at) =>
            fold(content).includes(fold(query)) ? [`#${at}`] : [],
          );
          expect(await idsOf(query, { files: [file], caseSensitive })).toEqual(expected);
        },
      ),
      { numRuns: 300 },
    );
  });

  test("an empty query and a pasted file are refused, and a limit is respected", async () => {
    const file = sessionFile(
      [said("u1", null, "needle"), said("u2", "u1", "needle")].map((line) => JSON.stringify(line)),
    );
    await expect(found("", { files: [file] })).rejects.toMatchObject({ code: "bad-input" });
    await expect(found("é".repeat(100_000), { files: [file] })).rejects.toMatchObject({ code: "bad-input" });
    expect(await idsOf("é".repeat(10_000), { files: [file] })).toEqual([]);
    expect(await idsOf("needle", { files: [file], limit: 1 })).toEqual(["u1"]);
  });

  test("an abort ends it with the abort's reason", async () => {
    const file = sessionFile([JSON.stringify(said("u1", null, "needle"))]);
    const abort = new AbortController();
    abort.abort(new Error("enough"));
    await expect(found("needle", { files: [file], signal: abort.signal })).rejects.toThrow("enough");
  });
});

/** Kinds of JSON writers. */
const WRITERS: ((value: object) => string)[] = [
  (value) => JSON.stringify(value),
  (value) => JSON.stringify(value).replace(/[^\p{ASCII}]/gu, escaped),
  (value) => JSON.stringify(value).replaceAll("/", "\\/"),
  (value) => JSON.stringify(value).replace(/[<>&']/g, escaped),
  // An escape is taken whole, so that the second half of `\\\\` is not taken for the beginning of one.
  (value) => JSON.stringify(value).replace(/\\(.)/g, (whole, of) => BY_NUMBER[of] ?? whole),
];

const BY_NUMBER: Readonly<Record<string, string>> = { '"': "\\u0022", n: "\\u000A" };

const escaped = (letter: string) =>
  Array.from(
    { length: letter.length },
    (_, at) => `\\u${letter.charCodeAt(at).toString(16).padStart(4, "0")}`,
  ).join("");

const isRoot = process.getuid?.() === 0;
const whyNot = isRoot ? " (skipped: root may read everything)" : "";

describe("searching many sessions", () => {
  test("covers a folder and all folders below it, newest first, and skips files that are not sessions", async () => {
    const folder = join(home, "project");
    mkdirSync(join(folder, "deeper"), { recursive: true });
    const older = sessionFile([JSON.stringify(said("old", null, "needle"))], folder);
    utimesSync(older, 1_000, 1_000);
    sessionFile([JSON.stringify(said("new", null, "needle"))], join(folder, "deeper"));
    writeFileSync(join(folder, "empty.jsonl"), "");
    writeFileSync(join(folder, "other.jsonl"), '"needle"\n');
    const skipped: string[] = [];
    const hits = await idsOf("needle", { folder, onSkipped: (file) => skipped.push(file) });
    expect(hits).toEqual(["new", "old"]);
    expect(skipped).toEqual([join(folder, "empty.jsonl")]);
    // One that was named is no matter of chance.
    await expect(found("needle", { files: [join(folder, "empty.jsonl")] })).rejects.toMatchObject({
      code: "empty-file",
    });
  });

  test.skipIf(isRoot)(`reports a file without access once${whyNot}`, async () => {
    const folder = join(home, "closed");
    mkdirSync(folder, { recursive: true });
    const closed = sessionFile([JSON.stringify(said("one", null, "needle"))], folder);
    chmodSync(closed, 0);
    const skipped: string[] = [];
    await idsOf("needle", { folder, onSkipped: (file) => skipped.push(file) });
    expect(skipped).toEqual([closed]);
  });

  test("works on another store, and changes no session", async () => {
    const store = memoryStore();
    const session = await createSession({ store });
    await session.appendMessages([{ role: "user", content: "A needle in memory." }]);
    const { file, leafId } = session;
    expect(await found("NEEDLE", { store })).toEqual([
      {
        file,
        sessionId: session.id,
        entryId: leafId,
        role: "user",
        snippet: "A needle in memory.",
        onPath: true,
      },
    ]);
    await session.close();
  });

  test("a hit on a copied entry names the earlier hit, only where the headers relate both sessions", async () => {
    const folder = join(home, "copies");
    mkdirSync(folder);
    const file = (name: string, lines: object[], { id = name, origin = "" } = {}) => {
      const parent = origin === "" ? {} : { parent: { sessionId: origin, entryId: "u1", kind: "fork" } };
      const header = { type: "session", version: 3, id, timestamp: TIME, cwd: "/project", ...parent };
      const path = join(folder, `${name}.jsonl`);
      writeFileSync(path, [header, ...lines].map((line) => `${JSON.stringify(line)}\n`).join(""));
      return path;
    };
    const first = said("u1", null, "needle");
    const files = [
      file("fork", [first, said("u2", "u1", "needle of the fork")], { origin: "origin" }),
      file("sibling", [first, said("u2", "u1", "needle of the sibling")], { origin: "origin" }),
      file("origin", [first]),
      file("continued", [first], { id: "origin" }),
      file("stranger", [first]),
    ];
    const sameAs = { file: files[0], sessionId: "fork" };
    expect((await found("needle", { files })).map((hit) => [hit.sessionId, hit.entryId, hit.sameAs])).toEqual(
      [
        ["fork", "u1", undefined],
        ["fork", "u2", undefined],
        ["sibling", "u1", sameAs],
        ["sibling", "u2", undefined],
        ["origin", "u1", sameAs],
        ["origin", "u1", sameAs],
        ["stranger", "u1", undefined],
      ],
    );
  });
});
