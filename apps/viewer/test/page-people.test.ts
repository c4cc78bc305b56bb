import { readFileSync, writeFileSync } from "node:fs";
import { openSession } from "@espalier/engine";
import type { Page } from "playwright-core";
import { afterAll, describe, expect, test } from "vitest";
import { hasBrowser } from "./browser.ts";
import { DEMO, Scratch } from "./scratch.ts";
import { demo, selectedRow, selectedText, shownPages } from "./shown-pages.ts";

/** Waits for a value, on a busy machine too. */
const soon = <Value>(read: () => Value | Promise<Value>) => expect.poll(read, { timeout: 40_000 });

const DAY = 86_400_000;

/** A line of a session, `age` days old. */
const entry = (id: string, parentId: string | null, fields: object, age = 0) => ({
  id,
  parentId,
  timestamp: new Date(Date.now() - age * DAY).toISOString(),
  ...fields,
});

const said = (id: string, parentId: string | null, role: string, content: unknown, more: object = {}) =>
  entry(id, parentId, {
    type: "message",
    message: { role, content, timestamp: 0, ...(role === "assistant" ? ANSWERED : {}), ...more },
  });
const ANSWERED = { provider: "anthropic", model: "claude-haiku-4-5", stopReason: "stop" };

/** Writes a session file; returns its path. */
function writeSession(scratch: Scratch, id: string, header: object, entries: readonly object[]): string {
  const file = scratch.path(`${id}.jsonl`);
  const first = {
    type: "session",
    version: 3,
    id,
    timestamp: new Date(0).toISOString(),
    cwd: "/home/ada/one",
    ...header,
  };
  writeFileSync(file, [first, ...entries].map((line) => `${JSON.stringify(line)}\n`).join(""));
  return file;
}

const text = (page: Page, selector: string) => page.locator(selector).first().textContent();
/** Text of an element as it is shown, with the blanks and line breaks that a user sees. */
// biome-ignore lint/performance/useDomNodeTextContent: it is about what is shown
const innerText = (element: HTMLElement) => element.innerText;
const hash = (page: Page) => new URL(page.url()).hash;

describe.skipIf(!hasBrowser)("a user of the page", () => {
  const { scratch, built, show, showDemo } = shownPages();

  /** Folders of single tests. */
  const folders: Scratch[] = [];
  const ownFolder = () => {
    const own = new Scratch();
    folders.push(own);
    return own;
  };
  afterAll(async () => {
    for (const folder of folders) await folder.end();
  });

  /** Shows one generated session. */
  const showSession = async (id: string, entries: readonly object[], options = {}) => {
    const own = ownFolder();
    writeSession(own, id, {}, entries);
    const server = await own.serve(built(), options);
    const page = await show(`${server.url}#/s/${id}`);
    await page.waitForSelector(".tree-line");
    return page;
  };

  test("reads the type of an entry that the page does not know, and the message of a provider's error", async () => {
    const own = ownFolder();
    const body = { type: "error", error: { type: "invalid_request_error", message: "prompt is too long" } };
    const failed = { stopReason: "error", errorMessage: `400 ${JSON.stringify(body)}` };
    writeSession(own, "odd", {}, [
      said("u1", null, "user", "Hello"),
      said("a1", "u1", "assistant", [], failed),
      entry("x1", "a1", { type: "garden.visit", bees: 3 }),
      said("u2", "x1", "user", "Bye"),
    ]);
    const page = await show(`${(await own.serve(built())).url}#/s/odd`);
    await page.locator(".tree-line", { hasText: "failed: 400 prompt is too long" }).waitFor();
    await page.getByRole("button", { name: "Bookkeeping" }).click();
    await page.locator("article", { hasText: "unknown: garden.visit" }).waitFor();
  });

  test("moves by keys from the start, and after a click on a text, a button or the slider", async () => {
    const page = await showDemo();
    await page.waitForSelector(".entry.selected");
    await page.keyboard.press("Home");
    await page.locator(".tree-line.selected[aria-posinset='1']").waitFor();
    await page.locator(".entry .typed").first().click();
    await page.keyboard.press("End");
    await page.locator(".tree-line.selected .leaf, .tree-line.selected .tag").first().waitFor();
    const end = await selectedRow(page);
    for (const place of ["h1", ".timeline output", "button:text('To the leaf')"]) {
      await page.locator(place).first().click();
      await page.keyboard.press("k");
      await soon(() => selectedRow(page)).not.toBe(end);
      await page.keyboard.press("j");
      await soon(() => selectedRow(page)).toBe(end);
    }
  });

  test("moves from the last line to the first by keys, through every branch", async () => {
    const page = await showDemo();
    await page.keyboard.press("End");
    const lineOf = () => page.evaluate(() => document.querySelector(".tree-line.selected")?.id ?? "");
    await soon(lineOf).not.toBe("");
    const last = Number((await lineOf()).slice("line-".length));
    for (let line = last; line > 0; line--) {
      expect(await lineOf()).toBe(`line-${line}`);
      await page.keyboard.press("ArrowUp");
      await soon(lineOf).toBe(`line-${line - 1}`);
    }
  });

  test("finds the selected entry and the search in the address, and Back restores both", async () => {
    const page = await showDemo();
    await page.waitForSelector(".entry.selected");
    await page.fill("#find", "harmonic");
    await soon(() => hash(page)).toContain("find=harmonic");
    await soon(() => text(page, ".find output")).toMatch(/\d/);
    await page.keyboard.press("Enter");
    await soon(() => hash(page)).toMatch(/entry=\w+/);
    await page.keyboard.press("Escape");
    await soon(() => hash(page)).not.toContain("find=");
    const ended = hash(page);
    const shown = await selectedRow(page);
    await page.locator(".tree-line.kind-u").first().click();
    await soon(() => hash(page)).not.toBe(ended);
    const clicked = hash(page);
    await page.keyboard.press("2");
    await page.getByRole("heading", { name: "What the model reads here" }).waitFor();
    await page.goBack();
    await soon(() => hash(page)).toBe(clicked);
    await page.goBack();
    await soon(() => hash(page)).toBe(ended);
    await soon(() => selectedRow(page)).toBe(shown);
    // Arrows put the entry into the address too, without a step for Back.
    const before = hash(page);
    const length = await page.evaluate(() => history.length);
    await page.keyboard.press("ArrowUp");
    await soon(() => hash(page)).not.toBe(before);
    expect(await page.evaluate(() => history.length)).toBe(length);
  });

  test("keeps the search in the address when a key moves the entry at the same time", async () => {
    const page = await showDemo();
    await page.waitForSelector(".entry.selected");
    await soon(() => selectedText(page)).not.toBe("");
    // The page has not drawn this change of its address yet.
    await page.evaluate(() => history.replaceState(null, "", `${location.hash}?find=station`));
    await page.keyboard.press("ArrowUp");
    await soon(() => hash(page)).toContain("entry=");
    expect(hash(page)).toContain("find=station");
    await soon(() => page.inputValue("#find")).toBe("station");
  });

  test("goes to the entry of a new address that comes while the page is busy", async () => {
    const page = await showDemo();
    await page.waitForSelector(".entry.selected");
    const last = await selectedRow(page);
    await page.keyboard.press("ArrowUp");
    await soon(() => hash(page)).toContain("entry=");
    const first = hash(page);
    await page.keyboard.press("ArrowUp");
    await soon(() => hash(page)).not.toBe(first);
    const wanted = await selectedRow(page);
    const target = hash(page);
    await page.keyboard.press("End");
    await soon(() => selectedRow(page)).toBe(last);
    await soon(() => hash(page)).not.toBe(target);
    await page.keyboard.press("Home");
    // A busy page learns of a new address only after its own timers.
    await page.evaluate(async (address) => {
      history.pushState(null, "", address);
      await new Promise((resolve) => setTimeout(resolve, 600));
      dispatchEvent(new Event("hashchange"));
    }, target);
    await soon(() => selectedRow(page)).toBe(wanted);
    expect(hash(page)).toBe(target);
  });

  test("sees hits counted and marked and moves between them; Escape ends only the search", async () => {
    const session = await demo();
    const page = await showDemo();
    await page.waitForSelector(".entry.selected");
    await page.keyboard.press("/");
    await page.keyboard.type("station");
    const output = () => text(page, ".find output");
    await soon(output).toMatch(/^(\d+ of )?\d+$/);
    const count = Number(/\d+$/.exec((await output())!)![0]);
    expect(count).toBeGreaterThan(2);
    await page.keyboard.press("Enter");
    await soon(output).toMatch(new RegExp(`^\\d+ of ${count}$`));
    const first = Number.parseInt((await output())!, 10);
    const chosen = await selectedRow(page);
    await soon(() => page.evaluate(() => CSS.highlights.get("found")?.size ?? 0)).toBeGreaterThan(0);
    await page.locator("h1").click();
    await page.keyboard.press("n");
    await soon(output).toBe(`${(first % count) + 1} of ${count}`);
    await page.keyboard.press("N");
    await soon(output).toBe(`${first} of ${count}`);
    await page.keyboard.press("Escape");
    await soon(() => page.inputValue("#find")).toBe("");
    expect(await selectedRow(page)).toBe(chosen);
    await soon(() => page.evaluate(() => CSS.highlights.has("found"))).toBe(false);
    await soon(() => hash(page)).not.toContain("find");
    await session.close();
  });

  test("has a live list with age, agent and project, sub-agents under their session, and filters", async () => {
    const own = ownFolder();
    const prompt = (words: string, age: number) => [
      entry("a", null, { type: "message", message: { role: "user", content: words, timestamp: 0 } }, age),
    ];
    writeSession(own, "recent", { importedFrom: { agent: "codex" } }, prompt("Mend the lock", 2.5));
    writeSession(own, "older", { cwd: "/home/ada/two" }, prompt("Paint the boat", 40.5));
    const parent = { sessionId: "older", kind: "subagent" };
    writeSession(own, "run", { cwd: "/home/ada/two", parent }, prompt("Look for paint", 40.5));
    const server = await own.serve(built());
    const page = await show(server.url);
    const titles = () => page.locator(".sessions > li > .session .title").allTextContents();
    await soon(titles).toEqual(["Mend the lock", "Paint the boat"]);
    const [first, second] = await page.locator(".sessions > li > .session > .quiet").allTextContents();
    expect(first).toMatch(/2 days ago.*Codex.*one/);
    expect(second).toMatch(/20\d\d.*two/);
    await page.getByText("1 sub-agent").click();
    await page.locator(".sub-agents .title").getByText("Look for paint").waitFor();
    await page.getByLabel("Time").selectOption("7");
    await soon(titles).toEqual(["Mend the lock"]);
    await page.getByLabel("Time").selectOption("");
    await page.getByLabel("Agent").selectOption("codex");
    await soon(titles).toEqual(["Mend the lock"]);
    await page.getByLabel("Agent").selectOption("");
    await page.getByLabel("Project").selectOption("/home/ada/two");
    await soon(titles).toEqual(["Paint the boat"]);
    // Back from a session returns to the choice.
    await page.locator(".sessions > li > .session").first().click();
    await page.waitForSelector(".entry");
    await page.goBack();
    await soon(titles).toEqual(["Paint the boat"]);
    await page.getByLabel("Project").selectOption("");
    writeSession(own, "newest", {}, prompt("Sail away", 0));
    await soon(titles).toEqual(["Sail away", "Mend the lock", "Paint the boat"]);
  });

  test("has sub-agents of sub-agents under the session that none of them started", async () => {
    const own = ownFolder();
    const prompt = (words: string) => [said("a", null, "user", words)];
    const under = (sessionId: string) => ({ parent: { sessionId, kind: "subagent" } });
    writeSession(own, "chief", {}, prompt("Paint the boat"));
    writeSession(own, "helper", under("chief"), prompt("Look for paint"));
    writeSession(own, "runner", under("helper"), prompt("Ask the harbour"));
    writeSession(own, "orphan", under("missing"), prompt("Mend the lock"));
    const page = await show((await own.serve(built())).url);
    const titles = () => page.locator(".sessions > li > .session .title").allTextContents();
    await soon(async () => (await titles()).sort()).toEqual(["Mend the lock", "Paint the boat"]);
    await page.getByText("2 sub-agents").click();
    const runs = page.locator(".sub-agents .title");
    expect(await runs.allTextContents()).toEqual(["Look for paint", "Ask the harbour"]);
    await page.fill("input[type=search]", "harbour");
    await page.getByRole("heading", { name: "Found in 1 session" }).waitFor();
    await soon(titles).toEqual(["Paint the boat"]);
  });

  test("sees sessions that came while the page was hidden", async () => {
    const own = ownFolder();
    writeSession(own, "first", {}, [said("a", null, "user", "Mend the lock")]);
    const page = await show((await own.serve(built())).url);
    const titles = () => page.locator(".sessions .title").allTextContents();
    await soon(titles).toEqual(["Mend the lock"]);
    const hide = (isHidden: boolean) =>
      page.evaluate((hidden) => {
        Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
      }, isHidden);
    await hide(true);
    writeSession(own, "second", {}, [said("a", null, "user", "Paint the boat")]);
    await hide(false);
    await soon(titles).toHaveLength(2);
  });

  test("finds a message of last week: sessions with the text, newest first, under the filters", async () => {
    const own = ownFolder();
    const prompt = (words: string, age: number) => [
      entry("a", null, { type: "message", message: { role: "user", content: words, timestamp: 0 } }, age),
    ];
    writeSession(own, "a-older", { cwd: "/home/ada/two" }, prompt("Paint the boat white", 40.5));
    writeSession(own, "b-recent", {}, prompt("Mend the boat", 2.5));
    const server = await own.serve(built());
    const page = await show(server.url);
    await page.fill("input[type=search]", "BOAT");
    const hits = () => page.locator(".hits .snippet").allTextContents();
    await soon(hits).toEqual(["Mend the boat", "Paint the boat white"]);
    await page.getByRole("heading", { name: "Found in 2 sessions" }).waitFor();
    expect(await page.locator(".hits mark").allTextContents()).toEqual(["boat", "boat"]);
    // Their titles have the text too, and they are not listed again.
    await soon(() => page.locator(".sessions > li").count()).toBe(0);
    expect(await text(page, ".hits .session")).toMatch(/Mend the boat.*2 days.*one.*1 message/);
    await page.getByLabel("Time").selectOption("7");
    await soon(hits).toEqual(["Mend the boat"]);
    await page.getByLabel("Time").selectOption("");
    await page.getByLabel("Project").selectOption("/home/ada/two");
    await soon(hits).toEqual(["Paint the boat white"]);
    await page.getByLabel("Time").selectOption("7");
    await page.getByText("No message of the chosen sessions has this text").waitFor();
  });

  test("finds an old message before newer sessions with many hits, and sees their number", async () => {
    const own = ownFolder();
    const often = Array.from({ length: 600 }, (_, at) =>
      said(`m${at}`, at === 0 ? null : `m${at - 1}`, "user", `Boat number ${at}`),
    );
    writeSession(own, "often", {}, often);
    const seldom = { type: "message", message: { role: "user", content: "The old boat", timestamp: 0 } };
    writeSession(own, "seldom", { cwd: "/home/ada/two" }, [entry("a", null, seldom, 40)]);
    writeSession(own, "below", { cwd: "/home/ada/two/deck" }, [entry("a", null, seldom, 50)]);
    const server = await own.serve(built());
    const page = await show(server.url);
    await page.fill("input[type=search]", "boat");
    const counts = () => page.locator(".hits > ul > li > .session .quiet > :last-child").allTextContents();
    await soon(counts).toEqual(["over 100 messages", "1 message", "1 message"]);
    expect(await page.locator(".places").first().locator("li").count()).toBe(3);
    // A project has the folders below it.
    await page.getByLabel("Project").selectOption("/home/ada/two");
    await soon(counts).toEqual(["1 message", "1 message"]);
    await page.getByLabel("Project").selectOption("");
    await soon(counts).toHaveLength(3);
    // The session itself has the rest: its search goes on where the list ends.
    await page.locator(".hits > ul > li > .session").first().click();
    await soon(() => text(page, ".find output")).toMatch(/600$/);
    await page.goBack();
    await soon(counts).toHaveLength(3);
  });

  test("without a session sees which sessions of other agents can be imported", async () => {
    const own = ownFolder();
    const server = await own.serve(built(), { found: () => "8 Claude Code sessions, 3 Codex" });
    const page = await show(server.url);
    await page.getByText("8 Claude Code sessions, 3 Codex").waitFor();
    expect(await page.locator(".found-agents p").last().textContent()).toBe(
      "To import them, run espalier import claude-code --all or espalier import codex --all in a terminal. " +
        "This list shows them as they come; the sources are only read.",
    );
  });

  test("sees prompts with their spaces and line breaks, and summaries marked as summaries", async () => {
    const prompt =
      "  two blanks first\n\ttab,  two   runs\n\n\nand *stars* stay\n```js\nconst a = 1;\n```\nthe end";
    const summary = "## Goal\nSail.\n\n## Steps\n1. one\n2. two\n   - deep\n\n`code` and **bold**";
    const page = await showSession("blanks", [
      said("u1", null, "user", prompt),
      said("a1", "u1", "assistant", [{ type: "text", text: "line one\nline  two\n\n3. third\n4. fourth" }]),
      entry("c1", "a1", { type: "compaction", summary, firstKeptEntryId: "a1", tokensBefore: 900 }),
    ]);
    await page.keyboard.press("Home");
    await page.waitForSelector(".entry .typed");
    const typed = page.locator(".entry.kind-u .typed");
    expect(await typed.first().evaluate(innerText)).toBe(
      "  two blanks first\n\ttab,  two   runs\n\n\nand *stars* stay",
    );
    expect(await page.locator(".entry.kind-u pre code").textContent()).toContain("const a = 1;");
    const answer = page.locator(".entry.kind-a .markdown");
    expect(await answer.locator("p").first().evaluate(innerText)).toBe("line one\nline  two");
    expect(await answer.locator("ol").getAttribute("start")).toBe("3");
    await page.keyboard.press("3");
    await page.waitForSelector(".summary-part");
    expect(await page.locator(".summary-part h2").allTextContents()).toEqual(["Goal", "Steps"]);
    expect(await page.locator(".summary-part ol[start='2']").textContent()).toContain("two");
    expect(await page.locator(".summary-part ul").textContent()).toContain("deep");
    expect(await page.locator(".summary-part strong").textContent()).toBe("bold");
    expect(await text(page, ".summary-parts")).not.toMatch(/##|\*\*|`/);
  });

  test("sees messages, and bookkeeping only by the switch; a session opens at its last message", async () => {
    const page = await showSession("books", [
      entry("m1", null, { type: "model_change", provider: "anthropic", modelId: "claude-haiku-4-5" }),
      said("u1", "m1", "user", "Where does the tide turn?"),
      entry("s1", "u1", {
        type: "custom",
        customType: "claude-code.file-history-snapshot",
        data: { files: 3 },
      }),
      entry("r1", "s1", {
        type: "custom_message",
        customType: "claude-code.meta",
        content: "Mind the time.",
        display: false,
      }),
      said("a1", "r1", "assistant", [{ type: "text", text: "At the harbour wall." }]),
      entry("s2", "a1", {
        type: "custom",
        customType: "claude-code.cost-state",
        data: { totalCostUSD: 0.1 },
      }),
    ]);
    await soon(() => selectedText(page)).toContain("At the harbour wall.");
    await page.locator(".tree-line.selected .leaf").waitFor();
    const lines = () => page.locator(".tree-line .text").allTextContents();
    await soon(lines).toEqual(["Where does the tide turn?", "At the harbour wall."]);
    await soon(() => page.locator(".entry").count()).toBe(2);
    await page.getByRole("button", { name: "Bookkeeping" }).click();
    await soon(() => page.locator(".entry").count()).toBe(6);
    await page.getByRole("button", { name: "Fold runs" }).click();
    await soon(() => page.locator(".tree-line").count()).toBe(6);
    await page.getByRole("button", { name: "Bookkeeping" }).click();
    await soon(() => page.locator(".entry").count()).toBe(2);
    // An address that names a folded entry shows it.
    await page.evaluate(() => {
      location.hash = "#/s/books?entry=r1";
    });
    await page.locator(".entry.selected").getByText("Mind the time.").waitFor();
  });

  test("sees which messages a compaction took from the model; state of a program was never read", async () => {
    const page = await showSession("covered", [
      said("u1", null, "user", "Where does the tide turn?"),
      entry("s1", "u1", { type: "custom", customType: "claude-code.cost-state", data: {} }),
      entry("k1", "s1", { type: "compaction", summary: "Tides.", firstKeptEntryId: "k1", tokensBefore: 9 }),
      said("a1", "k1", "assistant", [{ type: "text", text: "At the harbour wall." }]),
    ]);
    await page.getByRole("button", { name: "Bookkeeping" }).click();
    await soon(() => page.locator(".entry").count()).toBe(4);
    const marked = page.locator(".entry", { hasText: "no longer read by the model" });
    expect(await marked.allTextContents()).toEqual([expect.stringContaining("Where does the tide turn?")]);
  });

  test("chooses any of 600 branches by typing", async () => {
    const branches = Array.from({ length: 600 }, (_, at) =>
      said(`b${at}`, "u1", "user", `Way number ${at} along the quay`),
    );
    const page = await showSession("branches", [said("u1", null, "user", "Which way?"), ...branches]);
    await page.keyboard.press("5");
    const field = page.getByLabel("The other branch");
    await field.click();
    await page.getByText("60 of 599").waitFor();
    await page.keyboard.type("number 571");
    await soon(() => page.locator(".branches [role=option]").count()).toBe(1);
    await page.keyboard.press("Enter");
    await page.locator(".side .entry").getByText("Way number 571 along the quay").waitFor();
    expect(hash(page)).toContain("other=b571");
    expect(await field.inputValue()).toContain("Way number 571");
  });

  test("sees the plan of a compaction by each policy, with its forecast, and runs it", async () => {
    const words = "A long story about tides and harbours, told again and again. ".repeat(400);
    const usage = {
      input: 10,
      output: 10,
      cacheRead: 5_000,
      cacheWrite: 100,
      totalTokens: 5_120,
      cost: { total: 0.01 },
    };
    const turns = Array.from({ length: 12 }, (_, at) => [
      said(`u${at}`, at === 0 ? null : `a${at - 1}`, "user", `Question ${at}`),
      said(`a${at}`, `u${at}`, "assistant", [{ type: "text", text: words }], { usage }),
    ]).flat();
    const page = await showSession("plan", turns, { write: true });
    const file = folders.at(-1)!.path("plan.jsonl");
    const session = await openSession({ file }, { mode: "read" });
    await session.load();
    const expected = session.comparePolicies().filter(({ eligible }) => eligible);
    expect(expected.length).toBeGreaterThan(2);
    const own = session.planCompaction();
    const counted = session.planCompaction({ policy: "pressure" });
    const { tokens } = session.context;
    await session.close();
    await page.getByRole("button", { name: "Compact", exact: true }).click();
    for (const { policy, summarised, cache } of expected) {
      const row = page.locator(".policies tbody tr", { has: page.getByRole("radio", { name: policy }) });
      expect(await row.locator("td").nth(1).textContent()).toBe(String(summarised));
      expect(await row.locator("td").nth(4).textContent()).toContain("$");
      expect(cache?.cost).toBeGreaterThan(0);
    }
    if (!own.eligible) throw new Error("The generated session cannot be compacted.");
    await page
      .locator(".plan")
      .getByText(/of them to the cache, which costs .* more than reading them/)
      .waitFor();
    await page
      .locator(".plan")
      .getByText(`Summarized: ${own.historyIds.length + own.turnPrefixIds.length} entries`)
      .waitFor();
    // A policy with its own count names the session's count too, which lists show.
    await page.getByRole("radio", { name: "pressure" }).click();
    const size = page.getByRole("region", { name: "The plan" }).locator("p").first();
    const shown = (count: number) => `${(count / 1000).toFixed(1)}k`;
    if (!counted.eligible) throw new Error("The generated session is too small for this policy.");
    expect(shown(counted.tokensBefore)).not.toBe(shown(tokens));
    await soon(() => size.textContent()).toMatch(
      new RegExp(
        `^The context goes from ${shown(counted.tokensBefore)} .*, as this policy counts; as the session counts, it has ${shown(tokens)}\\.`,
      ),
    );
    await page.getByRole("radio", { name: "message-count" }).click();
    await page.locator(".policies tr.chosen").getByText("message-count").waitFor();
    await page.getByRole("button", { name: "Compact this session" }).click();
    await page.waitForSelector("dialog", { state: "detached" });
    await page.locator(".tree-line.kind-c").waitFor();
    const compacted = await openSession({ file }, { mode: "read" });
    expect(JSON.stringify(compacted.getBranch().at(-1))).toContain("message-count");
    await compacted.close();
    // What was done is taken back, once it is said what that is, and done again.
    await page.getByRole("button", { name: "Undo" }).click();
    const dialog = page.getByRole("dialog", { name: "Undo" });
    await dialog.getByText("your compaction").waitFor();
    await dialog.getByRole("button", { name: "Undo" }).click();
    await soon(() => selectedText(page)).toContain("A long story");
    await page.keyboard.press("U");
    await page.getByRole("dialog", { name: "Redo" }).getByRole("button", { name: "Redo" }).click();
    await soon(() => selectedText(page)).toContain("Compaction");
  });

  test("saves a session as Markdown, HTML and JSON, from the server and from a file", async () => {
    const page = await showDemo();
    await page.waitForSelector(".entry.selected");
    const session = await demo();
    const { length } = session.tree;
    await session.close();
    const save = async (format: string) => {
      await page.getByRole("button", { name: "Export" }).click();
      await page.getByRole("radio", { name: format }).click();
      const [download] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("button", { name: "Save" }).click(),
      ]);
      await page.waitForSelector("dialog", { state: "detached" });
      return readFileSync(await download.path(), "utf8");
    };
    const markdown = await save("Markdown");
    expect(markdown).toContain("ready for review");
    // The whole session has its other branches too.
    expect(markdown).toContain("About a week for a careful person");
    expect(JSON.parse(await save("JSON one document for programs")).entries.length).toBe(length);
    const html = await save("HTML");
    const file = scratch.path("saved.html");
    writeFileSync(file, html);
    await page.goto(`file://${file}`);
    await page.getByText("ready-to-release").first().waitFor();
    expect(JSON.parse(await save("JSON one document for programs")).entries.length).toBe(length);
    writeFileSync(file, await save("HTML"));
    await page.goto(`file://${file}#/`);
    await page.reload();
    await page.getByText("ready-to-release").first().waitFor();
  });

  test("saves a file that was dropped onto the page of a server as a page without a server, and says what it lacks", async () => {
    const server = await ownFolder().serve(built(), { write: true });
    const page = await show(server.url);
    await page.getByText("There are no sessions here yet").waitFor();
    await page.evaluate(
      (text) => {
        const dataTransfer = new DataTransfer();
        dataTransfer.items.add(new File([text], "demo.jsonl"));
        dispatchEvent(new DragEvent("drop", { dataTransfer, cancelable: true }));
      },
      readFileSync(DEMO, "utf8"),
    );
    await page.getByText("ready-to-release").first().waitFor();
    const file = scratch.path("dropped.html");
    const save = async (content: string) => {
      await page.getByRole("button", { name: "Export" }).click();
      await page.getByRole("radio", { name: "HTML" }).click();
      await page.getByRole("radio", { name: content }).click();
      const [download] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("button", { name: "Save" }).click(),
      ]);
      await download.saveAs(file);
    };
    const open = async () => {
      const found = readFileSync(file, "utf8").match(/http-equiv="Content-Security-Policy"|data-served/g);
      expect(found).toEqual(['http-equiv="Content-Security-Policy"']);
      await page.goto(`file://${file}`);
      await page.reload();
      await page.getByText("ready-to-release").first().waitFor();
      return page.locator(".bar-top .quiet").textContent();
    };
    await save("the whole session");
    expect(await open()).toBe("212 entries");
    await page.getByRole("treeitem").first().click();
    await save("the path that is shown");
    const ofPath = await open();
    expect(ofPath).toMatch(/^\d+ entries · one path, without \d+ other entries$/);
    // What a page lacks is also missing in a page that is saved from it.
    await save("the whole session");
    expect(await open()).toBe(ofPath);
  });

  test("keeps an open dialog of a saved page while the address gets its session", async () => {
    const page = await showDemo();
    await page.waitForSelector(".entry.selected");
    await page.getByRole("button", { name: "Export" }).click();
    await page.getByRole("radio", { name: "HTML" }).click();
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "Save" }).click(),
    ]);
    const file = scratch.path("dialog.html");
    await download.saveAs(file);
    // Opens the dialog in the same task that draws the button, before the page writes its address.
    await page.addInitScript(() => {
      new MutationObserver((_, observer) => {
        const button = [...document.querySelectorAll("button")].find((one) => one.textContent === "Export");
        if (!button || location.hash !== "") return;
        observer.disconnect();
        button.click();
      }).observe(document, { childList: true, subtree: true });
    });
    await page.goto(`file://${file}`);
    await page.waitForFunction(() => location.hash !== "");
    await page.evaluate(() => new Promise((done) => setTimeout(done, 100)));
    expect(await page.locator("dialog[open]").count()).toBe(1);
  });

  test("prints the whole path without buttons", async () => {
    const session = await demo();
    const messages = session.getBranch().filter(({ type }) => type === "message").length;
    await session.close();
    const page = await showDemo();
    await page.waitForSelector(".entry.selected");
    await page.evaluate(() => {
      const seen = globalThis as unknown as { printed: { cards: number; last: boolean } };
      globalThis.print = () => {
        const cards = document.querySelectorAll(".entry, .entry details.call[data-row]").length;
        seen.printed = { cards, last: document.querySelector(".entry details:not([open])") === null };
      };
    });
    await page.keyboard.press("Control+p");
    const printed = () =>
      page.evaluate(() => (globalThis as unknown as { printed?: { cards: number; last: boolean } }).printed);
    await soon(async () => (await printed())?.cards ?? 0).toBeGreaterThanOrEqual(messages);
    expect((await printed())?.last).toBe(true);
    // All of it comes back to what it was.
    await soon(() => page.locator(".entry").count()).toBeLessThan(messages);
    await page.emulateMedia({ media: "print" });
    for (const hidden of [".tree", ".tabs", ".timeline", ".acts", ".entry.selected .entry-tools"])
      expect(await page.locator(hidden).first().isVisible()).toBe(false);
    const tall = await page
      .locator(".conversation")
      .evaluate((element) => [element.clientHeight, element.scrollHeight]);
    expect(tall[0]).toBe(tall[1]);
    expect((await page.pdf()).length).toBeGreaterThan(10_000);
    // Long results are whole on paper.
    await page.evaluate(() => {
      const seen = globalThis as unknown as { cut: string[] };
      globalThis.print = () => {
        seen.cut = [...document.querySelectorAll<HTMLElement>(".conversation *")]
          .filter((element) => getComputedStyle(element).overflowY !== "visible")
          .filter((element) => element.scrollHeight > element.clientHeight + 2 && element.clientHeight > 0)
          .map((element) => element.outerHTML.slice(0, 80));
      };
    });
    await page.keyboard.press("Control+p");
    const cut = () => page.evaluate(() => (globalThis as unknown as { cut?: string[] }).cut);
    await soon(cut).toEqual([]);
    // Paper is light in the dark theme too.
    const colours = (theme: string) =>
      page.evaluate((name) => {
        document.documentElement.setAttribute("data-theme", name);
        const style = getComputedStyle(document.documentElement);
        return ["--good-soft", "--bad-soft", "--tool", "--code-string", "--ink", "color-scheme"].map((of) =>
          style.getPropertyValue(of),
        );
      }, theme);
    expect(await colours("dark")).toEqual(await colours("light"));
    await page.emulateMedia({ media: "screen" });
  });

  test("sees the cost of sub-agents", async () => {
    const own = ownFolder();
    const usage = (total: number) => ({ usage: { input: 9, output: 9, totalTokens: 18, cost: { total } } });
    const talk = (total: number) => [
      said("u", null, "user", "Go."),
      said("a", "u", "assistant", [{ type: "text", text: "Gone." }], usage(total)),
    ];
    writeSession(own, "chief", {}, talk(2));
    writeSession(own, "helper", { parent: { sessionId: "chief", kind: "subagent" } }, talk(0.5));
    const server = await own.serve(built());
    const page = await show(`${server.url}#/s/chief/usage`);
    const value = (name: string) => page.locator(".facts > div", { hasText: name }).locator("dd").first();
    await page.locator(".bills caption").getByText("By sub-agent").waitFor();
    expect(await value("Of sub-agents").textContent()).toBe("$0.5000");
    expect(await value("With sub-agents").textContent()).toBe("$2.50");
  });
});
