// Lines that are JSON and no sound entries: the viewer's model, its server and its page go on without them.
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import type { Tree } from "@espalier/session-tree";
import { wrongFields } from "@espalier/session-tree/testing";
import { treeReader } from "@espalier/viewer/model";
import fc from "fast-check";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { treeOf } from "./arbitrary-tree.ts";
import { hasBrowser, startBrowser, watchedPage } from "./browser.ts";
import { Scratch } from "./scratch.ts";

const ROOT = new URL("../../..", import.meta.url).pathname;
const TIMESTAMP = "2026-01-01T00:00:00.000Z";
const HEADER = { type: "session", version: 3, id: "unsound", timestamp: TIMESTAMP, cwd: "/project" };

const asked = (id: string, parentId: string | null) => ({
  type: "message",
  id,
  parentId,
  timestamp: TIMESTAMP,
  message: { role: "user", content: `said ${id}`, timestamp: 1 },
});
const CALL = {
  type: "message",
  id: "call0001",
  parentId: "user0001",
  timestamp: TIMESTAMP,
  message: {
    role: "assistant",
    content: [{ type: "toolCall", id: "call-1", name: "edit", arguments: { path: "a.ts" } }],
    provider: "anthropic",
    model: "claude-test",
    usage: { input: 1, output: 1, cacheRead: 0, cacheWrite: 0, cost: { total: 0.001 } },
    stopReason: "toolUse",
    timestamp: 1,
  },
};
const TRUNK = [asked("user0001", null), CALL, asked("aside001", "user0001")];
const WRONG = [...wrongFields({ id: "wrong001", parentId: "call0001", targetId: "user0001" })];

/** One in eight of them on one path: as many as a page is looked through in a minute. */
const SOME = WRONG.filter((_, at) => at % 8 === 3);
const CHAIN = [
  ...TRUNK,
  ...SOME.map(({ entry }, at) => ({
    ...entry,
    id: `wrong-${at}`,
    parentId: at === 0 ? "call0001" : `wrong-${at - 1}`,
  })),
  asked("last0001", `wrong-${SOME.length - 1}`),
];

/** What nobody may read: a trace of an expectation that a line did not meet. */
const UNWORDED = /\bundefined\b|\[object Object\]|\bNaN\b|is not a function|Cannot read|"internal"/;

/** Everything that a page asks of a session, by the methods that answer. */
async function answersOf(tree: Tree): Promise<Record<string, unknown>> {
  const reader = treeReader(tree);
  const rows = Array.from({ length: tree.length }, (_, row) => row);
  const facts = await reader.facts();
  const each = async (read: (row: number) => Promise<unknown>, of = rows) => Promise.all(of.map(read));
  const compactions = facts.compactions.map(({ row }) => row);
  return {
    facts,
    outline: await reader.outline(0, tree.length),
    gists: await reader.gists(0, tree.length),
    entries: await reader.entries(rows),
    context: await each((row) => reader.context(row)),
    growth: await each((row) => reader.growth(row)),
    stats: await reader.stats(),
    spending: await reader.spending(),
    compaction: await each((row) => reader.compaction(row), compactions),
    origins: await each((row) => reader.origins(row, "what was said"), compactions),
    find: await reader.find("said"),
    compare: await each((row) => reader.compare(row, 2)),
  };
}

/** Places of an answer that JSON cannot hold. */
function* unheld(value: unknown, place = ""): Generator<string> {
  if (typeof value === "number" && !Number.isFinite(value)) yield place;
  if (typeof value !== "object" || value === null) return;
  for (const [key, field] of Object.entries(value)) yield* unheld(field, `${place}.${key}`);
}

const scratch = new Scratch();
afterAll(() => scratch.end());

describe("an unsound line", () => {
  test("breaks no answer of the model, whatever field is wrong", { timeout: 600_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...WRONG), fc.boolean(), async ({ name, entry }, isLeaf) => {
        const tree = treeOf([...TRUNK, entry, ...(isLeaf ? [] : [asked("after001", "wrong001")])]);
        try {
          const answers = await answersOf(tree);
          expect([...unheld(answers)].filter((place) => !place.endsWith(".timestamp"))).toEqual([]);
          expect(JSON.stringify(answers)).not.toMatch(UNWORDED);
        } catch (cause) {
          throw new Error(name, { cause });
        }
      }),
      { numRuns: Number(process.env["ESPALIER_UNSOUND_RUNS"] ?? 400), endOnFailure: true },
    );
  });

  test("breaks no route of the server, and answers are complete", { timeout: 600_000 }, async () => {
    const page = scratch.path("page.html");
    writeFileSync(page, '<!--policy--><style>a{}</style><!--session--><script type="module">1</script>');
    writeFileSync(
      scratch.path("unsound.jsonl"),
      [HEADER, ...CHAIN].map((line) => `${JSON.stringify(line)}\n`).join(""),
    );
    const { url } = await scratch.serve(page);
    const last = CHAIN.length - 1;
    const ask = async (path: string): Promise<unknown> => {
      const answer = await fetch(`${url}api/${path}`);
      const text = await answer.text();
      expect([path, answer.status, UNWORDED.exec(text)?.[0]]).toEqual([path, 200, undefined]);
      return JSON.parse(text);
    };
    const of = (path: string) => ask(`sessions/unsound/${path}`);
    const { compactions } = (await of("facts")) as { compactions: { row: number }[] };
    expect(compactions.length).toBeGreaterThan(10);
    const paths = [
      "stats",
      "spending",
      "find?q=said",
      `outline?from=0&to=${last}`,
      `gists?from=0&to=${last}`,
    ];
    for (const path of [...paths, `growth?row=${last}`, `compare?a=${last}&b=2`]) await of(path);
    for (let row = 0; row <= last; row += 17)
      await of(`context?row=${row}`).then(() => of(`entries?rows=${row}`));
    for (const { row } of compactions.filter((_, at) => at % 5 === 0))
      await of(`compaction?row=${row}`).then(() => of(`origins?row=${row}&line=what%20was%20said`));
    expect(await ask("sessions")).toHaveLength(1);
    expect(await ask("search?q=said")).not.toEqual([]);
  });
});

/** JSON text of lists in lists. */
const nested = (depth: number): string => `${"[".repeat(depth)}1${"]".repeat(depth)}`;

/** A session with a value of this depth in each place that takes any: arguments, results, custom data, an unknown field. */
function deepSession(depth: number): string {
  const hole = '"hole"';
  const line = (entry: object) => `${JSON.stringify(entry).replaceAll(hole, nested(depth))}\n`;
  const call = structuredClone(CALL) as { message: { content: { arguments: object }[] } };
  call.message.content[0]!.arguments = { path: "a.ts", edits: "hole" };
  const result = {
    role: "toolResult",
    toolCallId: "call-1",
    toolName: "edit",
    content: "done",
    isError: false,
  };
  const base = { timestamp: TIMESTAMP };
  return [
    { ...HEADER, id: "deep" },
    asked("user0001", null),
    call,
    {
      ...base,
      type: "message",
      id: "result01",
      parentId: "call0001",
      message: { ...result, details: "hole" },
    },
    { ...base, type: "custom", id: "custom01", parentId: "result01", customType: "trial", data: "hole" },
    { ...asked("last0001", "custom01"), own: "hole" },
  ]
    .map(line)
    .join("");
}

describe.each([200, 3_000, 100_000])("values that are nested %i deep", (depth) => {
  test("break no route of the server", { timeout: 120_000 }, async () => {
    const page = scratch.path("deep.html");
    writeFileSync(page, '<!--policy--><style>a{}</style><!--session--><script type="module">1</script>');
    writeFileSync(scratch.path("deep.jsonl"), deepSession(depth));
    const { url } = await scratch.serve(page);
    const paths = ["facts", "stats", "spending", "find?q=said", "outline?from=0&to=4", "gists?from=0&to=4"];
    for (const path of [
      ...paths,
      "context?row=4",
      "entries?rows=0,1,2,3,4",
      "growth?row=4",
      "compare?a=4&b=0",
    ]) {
      const answer = await fetch(`${url}api/sessions/deep/${path}`);
      const text = await answer.text();
      expect([path, answer.status, UNWORDED.exec(text)?.[0]]).toEqual([path, 200, undefined]);
      expect(() => JSON.parse(text)).not.toThrow();
    }
  });
});

describe.skipIf(!hasBrowser)("an unsound line, in a browser", () => {
  let browser: Browser;
  beforeAll(async () => {
    execFileSync(process.execPath, [`${ROOT}scripts/build-viewer.mjs`, scratch.path("page")]);
    browser = await startBrowser();
  }, 120_000);
  afterAll(() => browser?.close());

  /** What a page says when it has come to rest, names of its elements too. */
  const saidOn = (page: Page): Promise<string> =>
    page.evaluate(async () => {
      const app = document.getElementById("app")!;
      const said = () =>
        [
          app.textContent,
          ...[...app.querySelectorAll("[aria-label], [title]")].flatMap((element) => [
            element.getAttribute("aria-label"),
            element.getAttribute("title"),
          ]),
        ].join("\n");
      for (let before = ""; ; ) {
        await new Promise((resolve) => setTimeout(resolve, 60));
        const now = said();
        if (now === before && !now.includes("Reading…")) return now;
        before = now;
      }
    });

  test.each([200, 3_000, 100_000])("values nested %i deep are drawn", { timeout: 120_000 }, async (depth) => {
    writeFileSync(scratch.path("deep.jsonl"), deepSession(depth));
    const { url } = await scratch.serve(scratch.path("page/index.html"));
    const { page, context, troubles } = await watchedPage(browser);
    await page.goto(`${url}#/s/deep`);
    await page.waitForSelector(".tree-line", { state: "attached" });
    for (const id of ["call0001", "result01", "custom01", "last0001"]) {
      await page.evaluate((hash) => {
        location.hash = hash;
      }, `#/s/deep?entry=${id}`);
      await page.waitForSelector(".entry");
      expect(UNWORDED.exec(await saidOn(page))?.[0]).toBeUndefined();
    }
    expect(await saidOn(page)).toContain("said last0001");
    expect(troubles).toEqual([]);
    await context.close();
  });

  test("is drawn with its real content in every panel", { timeout: 900_000 }, async () => {
    writeFileSync(
      scratch.path("unsound.jsonl"),
      [HEADER, ...CHAIN].map((line) => `${JSON.stringify(line)}\n`).join(""),
    );
    const { url } = await scratch.serve(scratch.path("page/index.html"));
    const { page, context, troubles } = await watchedPage(browser);
    const found = new Set<string>();
    const look = async (where: string) => {
      const said = await saidOn(page);
      const at = UNWORDED.exec(said);
      if (at) found.add(`${where}: ${said.slice(Math.max(0, at.index - 80), at.index + 40)}`);
      return said;
    };
    const go = (place: string) =>
      page.evaluate((hash) => {
        location.hash = hash;
      }, `#/s/unsound${place}`);
    await page.goto(`${url}#/s/unsound`);
    await page.waitForSelector(".tree-line", { state: "attached" });
    await look("the tree");
    const drawn = new Set<string>();
    for (let at = 0; at < SOME.length; at += 25) {
      await go(`?entry=wrong-${at}`);
      expect(await look(`wrong-${at}`)).not.toBe("");
      for (const row of await page
        .locator(".entry")
        .evaluateAll((all) => all.map((one) => one.dataset["row"])))
        drawn.add(String(row));
    }
    expect(drawn.size).toBeGreaterThan(SOME.length / 2);
    for (let at = 0; at < SOME.length; at += 120) {
      await go(`/context?entry=wrong-${at}`);
      await look(`context at wrong-${at}`);
      await page.evaluate(() => {
        for (const details of document.querySelectorAll<HTMLDetailsElement>(".pieces > li > details"))
          details.open = true;
      });
      await look(`pieces of the context at wrong-${at}`);
    }
    await go("/compactions");
    const choice = page.getByLabel("Compaction", { exact: true });
    await choice.waitFor();
    await look("compactions");
    const count = await choice.locator("option").count();
    expect(count).toBeGreaterThan(10);
    for (let at = 0; at < count; at += 4) {
      await choice.selectOption({ index: at });
      await look(`compaction ${at}`);
    }
    await go("/usage");
    await look("usage");
    await go("/compare?other=aside001");
    await look("compare");
    await page.goto(url);
    await page.waitForSelector(".session");
    await look("the list");
    expect([...found]).toEqual([]);
    expect(troubles).toEqual([]);
    await context.close();
  });

  test("is shown with numbers for characters that change the reading direction, also in folder and model", async () => {
    const lines = [
      { ...HEADER, id: "steered", cwd: "/tmp/\u202egpj.exe\u200b" },
      asked("user0001", null),
      { ...CALL, message: { ...CALL.message, model: "claude\u2066test\u200b" } },
    ];
    writeFileSync(scratch.path("steered.jsonl"), lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
    const { url } = await scratch.serve(scratch.path("page/index.html"));
    const { page, context } = await watchedPage(browser);
    await page.goto(url);
    await page.waitForSelector(".session");
    const list = await saidOn(page);
    expect(list).toContain("/tmp/⟨U+202E⟩gpj.exe⟨U+200B⟩");
    await page.goto(`${url}#/s/steered?entry=call0001`);
    await page.waitForSelector(".entry");
    const session = await saidOn(page);
    expect(session).toContain("claude⟨U+2066⟩test⟨U+200B⟩");
    for (const said of [list, session]) expect(said).not.toMatch(/[\u200b\u202a-\u202e\u2066-\u2069]/);
    await context.close();
  });
});
