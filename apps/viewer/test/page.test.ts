import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createSession, openSession } from "@espalier/engine";
import { cacheLedger, compareBranches, statsOf } from "@espalier/engine/reading";
import { htmlOf } from "@espalier/viewer";
import { describe, expect, test } from "vitest";
import { ATTACKS, writeAttackSession } from "./attack-session.ts";
import { hasBrowser } from "./browser.ts";
import { DEMO } from "./scratch.ts";
import { demo, KEY, selectedText, shownPages } from "./shown-pages.ts";

const CORPUS = new URL("../../../../shared/corpus/pi/large-session.jsonl", import.meta.url).pathname;

/** Waits for a value, on a busy machine too. */
const soon = <Value>(read: () => Value | Promise<Value>) => expect.poll(read, { timeout: 40_000 });

describe.skipIf(!hasBrowser)("the page, in a browser", () => {
  const { scratch, built, show, showDemo, watched } = shownPages();

  test("lists sessions and searches all of them, and a hit leads to its entry", async () => {
    scratch.copy(DEMO);
    const { url } = await scratch.serve(built());
    const page = await show(url);
    await page.waitForSelector(".session");
    await page.fill("input[type=search]", "sailor");
    await page.locator(".places .session").first().click();
    await page.waitForSelector(".entry.selected");
    expect(new URL(page.url()).hash).toMatch(/\?entry=\w+/);
    await soon(async () => (await page.locator(".entry.selected").textContent())?.toLowerCase()).toContain(
      "sailor",
    );
  });

  test("shows the tree: labels, the leaf, side branches, folded runs that open", async () => {
    const page = await showDemo();
    await page.getByText("ready-to-release").first().waitFor();
    expect(await page.locator(".tree-line .leaf").count()).toBe(1);
    expect(await page.locator(".tree-line.aside").count()).toBeGreaterThan(0);
    expect(await page.locator(".tree-line[aria-level='2']").count()).toBeGreaterThan(0);
    // The tree scrolls to the leaf when it is drawn: from its beginning, the first run is the same one until it is clicked.
    await page.getByRole("tree").focus();
    await page.keyboard.press("Home");
    await page.locator(".tree-line.selected[aria-posinset='1']").waitFor();
    const row = await page.locator(".tree-line.run").first().getAttribute("data-row");
    await page.locator(`.tree-line.run[data-row="${row}"]`).click();
    await page.waitForSelector(`.tree-line[data-row="${row}"]:not(.run)`);
    const lines = page.locator(".tree-line").first();
    const folded = Number(await lines.getAttribute("aria-setsize"));
    await page.getByRole("button", { name: "Fold runs" }).click();
    await soon(async () => Number(await lines.getAttribute("aria-setsize"))).toBeGreaterThan(folded);
    for (let step = 0; step < 4; step++) await page.getByRole("button", { name: "Smaller" }).click();
    expect(await page.locator(".tree-line").count()).toBe(0);
  });

  test("the tree is navigated by keys, and the screen reader gets the position", async () => {
    const page = await showDemo();
    const tree = page.getByRole("tree");
    await tree.focus();
    await page.keyboard.press("Home");
    await page.locator(".tree-line.selected[aria-posinset='1']").waitFor();
    const named = await tree.getAttribute("aria-activedescendant");
    expect(await page.locator(`#${named}`).getAttribute("aria-selected")).toBe("true");
    await page.keyboard.press("]");
    await soon(() => selectedText(page)).toContain("Compaction");
    await page.keyboard.press("ArrowUp");
    await soon(() => selectedText(page)).not.toContain("Compaction");
    await page.keyboard.press("2");
    await page.getByRole("heading", { name: "What the model reads here" }).waitFor();
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
  });

  test("shows the conversation: markdown, folded thinking, calls with results, changes of files", async () => {
    const session = await demo();
    const firstPrompt = session.tree.row(session.getBranch().find(({ type }) => type === "message")!.id);
    const edit = session.getBranch().find((entry) => JSON.stringify(entry).includes('"name":"edit"'))!;
    await session.close();
    const page = await showDemo(`?entry=${edit.id}`);
    const card = page.locator(".entry.selected");
    await card.locator(".call .diff .added").first().waitFor();
    expect(await card.locator(".call .result").count()).toBeGreaterThan(0);
    expect(await page.locator(".entry details.thinking:not([open])").count()).toBeGreaterThan(0);
    expect(await page.locator(".entry .markdown").count()).toBeGreaterThan(0);
    // What is further up comes as one scrolls there.
    const first = async () => Number(await page.locator(".entry").first().getAttribute("data-row"));
    await soon(async () => {
      await page.locator(".conversation").evaluate((element) => element.scrollTo(0, 0));
      return first();
    }).toBe(firstPrompt);
  });

  test("shows the context at an entry, and replays how it grew and was compacted", async () => {
    const session = await demo();
    const { tokens, messages } = session.context;
    const page = await showDemo("/context");
    await page
      .getByText(`${messages.length} messages, about ${(tokens / 1_000).toFixed(1)}k tokens`)
      .waitFor();
    expect(await page.locator(".pieces > li").count()).toBe(messages.length);
    const path = session.getBranch();
    const at = path.findIndex(({ type }) => type === "compaction");
    const slider = page.getByRole("slider", { name: "Step of the session" });
    const shown = () => page.locator(".timeline output").textContent();
    // The window is that of the session's model.
    await soon(shown).toMatch(/% of 200k$/);
    await page
      .getByLabel(/of 200\.0k tokens/)
      .first()
      .waitFor();
    const go = (step: number) =>
      slider.evaluate((input: HTMLInputElement, value) => {
        input.value = String(value);
        input.dispatchEvent(new Event("input", { bubbles: true }));
      }, step);
    // The slider counts what stands on the path, not what stands beside it.
    const beside = path.slice(0, at).filter(({ type }) => /label|session_info|usage|leaf/.test(type)).length;
    await go(at - beside - 1);
    await soon(shown).toContain("21.1k");
    await go(at - beside);
    await soon(shown).toContain("5,898");
    // The timeline has a lane of the breaks of the prompt cache, and goes to the entry that made one.
    const onPath = new Set(path.map(({ id }) => id));
    const breaks = cacheLedger(session.tree).breaks.filter(({ call }) => onPath.has(call));
    expect(breaks.length).toBeGreaterThan(5);
    await soon(() => page.locator(".timeline .cache-break").count()).toBe(breaks.length);
    const choice = page.getByLabel("Breaks of the prompt cache");
    expect(await choice.textContent()).toContain(`${breaks.length} cache breaks`);
    const compacted = breaks.find(({ cause }) => cause === "compaction")!;
    await choice.selectOption(String(session.tree.row(compacted.entryId)));
    await soon(shown).toContain("5,898");
    // The timeline knows the size before the panel has the messages.
    await soon(() => page.locator(".pieces .role").first().textContent()).toBe("summary");
    await page.locator(".pieces summary").first().click();
    await page.locator(".pieces details[open] .markdown").waitFor();
    await session.close();
  });

  test("inspects a compaction, and finds the entry that a line of its summary came from", async () => {
    const page = await showDemo("/compactions");
    await page.getByText("Before: 21.1k tokens").waitFor();
    await page.getByText("After: 5,898 tokens").waitFor();
    await page.getByText("Covered: 83 entries").waitFor();
    await page.getByRole("button", { name: /rename with up to five attempts/ }).click();
    const origin = page.locator(".origins button").first();
    await origin.click();
    await page.waitForSelector(".entry.selected");
    expect(await page.locator(".entry.selected").textContent()).toContain("replace-file");
  });

  test("compares two branches with the engine's figures", async () => {
    const session = await demo();
    const other = session.branches().find(({ leafId }) => leafId !== session.leafId)!.leafId;
    const { a, b } = compareBranches(session.tree, session.leafId, other);
    await session.close();
    const page = await showDemo(`/compare?other=${other}`);
    // Bookkeeping is folded, and still counted, as in `espalier diff`.
    for (const { entryIds, messages } of [a, b])
      await page
        .getByText(new RegExp(`^${entryIds.length} entr(y|ies) since they parted · ${messages} messages?,`))
        .first()
        .waitFor();
    expect(await page.locator(".side").count()).toBe(2);
    await page.locator(".side .entry").first().waitFor();
    // A branch is not compared with itself.
    const itself = await showDemo(`/compare?entry=${other}&branch=${other}&other=${other}`);
    await itself.getByText("The chosen entry is on the compared branch itself.").waitFor();
    expect(await itself.locator(".side").count()).toBe(0);
  });

  test("a hit, a rule and a covered entry open their entry in the conversation", async () => {
    const page = await showDemo("/usage");
    await page.fill("#find", "harmonic");
    await page.locator(".found button").first().waitFor();
    await page.keyboard.press("Enter");
    await page.locator(".conversation .entry.selected").waitFor();
    expect((await page.locator(".entry.selected").textContent())?.toLowerCase()).toContain("harmonic");
    // The list would cover the entry.
    expect(await page.locator(".found").count()).toBe(0);
    await page.locator("#find").click();
    await page.locator(".found button").first().waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("tab", { name: "Compactions" }).click();
    await page.getByText("Covered: 83 entries").click();
    await page.locator(".entry-list").getByText("I maintain tidepool").click();
    await page.locator(".conversation .entry.selected").waitFor();
    await page.getByRole("button", { name: "To the leaf" }).click();
    await page.getByRole("tab", { name: "Rules" }).click();
    const rule = page.locator(".rules button").first();
    const text = (await rule.textContent())!;
    await rule.click();
    await soon(() => page.locator(".conversation .entry.selected").textContent()).toContain(text);
  });

  test("plots the cost, with the engine's total", async () => {
    const session = await demo();
    const { total } = statsOf(session.tree);
    await session.close();
    const page = await showDemo("/usage");
    await page.getByText(`${total.calls} calls of models`).waitFor();
    await page
      .getByText(`$${total.cost.toFixed(2)}`)
      .first()
      .waitFor();
    expect(await page.locator(".plot polyline").count()).toBe(4);
  });

  test("shows new entries without a reload", async () => {
    const file = scratch.copy(DEMO);
    const page = await showDemo();
    const session = await openSession({ file });
    await session.appendMessages([{ role: "user", content: "A word from elsewhere." }]);
    await session.rename("Another name");
    await session.close();
    await page.locator(".entry.selected").getByText("A word from elsewhere.").waitFor();
    await soon(() => selectedText(page)).toContain("A word from elsewhere.");
    await soon(() => page.title()).toBe("Another name · Espalier");
  });

  test("shows a shorter file in the place of the session's, as after a repair, without a reload", async () => {
    const file = scratch.copy(DEMO);
    const page = await showDemo();
    const lines = readFileSync(file, "utf8").split("\n");
    writeFileSync(`${file}.new`, `${lines.slice(0, 12).join("\n")}\n`);
    renameSync(`${file}.new`, file);
    await page.getByText("11 entries").waitFor();
    await soon(() => page.locator(".tree-line").last().getAttribute("data-row")).toBe("10");
    await page.keyboard.press("2");
    await page.getByText("What the model reads here").waitFor();
    expect(await page.locator(".failure").count()).toBe(0);
  });

  test("shows a file of the same length in the place of the session's, without a reload", async () => {
    const file = scratch.copy(DEMO);
    const page = await showDemo();
    const text = readFileSync(file, "utf8");
    // The page follows the file a moment after it has read it.
    const replace = async () => {
      writeFileSync(`${file}.new`, text.replaceAll("ready-to-release", "ready-for-zebras"));
      renameSync(`${file}.new`, file);
      await page.getByText("ready-for-zebras").first().waitFor({ timeout: 4_000 });
    };
    await expect
      .poll(
        () =>
          replace().then(
            () => "shown",
            () => "not yet",
          ),
        { timeout: 40_000 },
      )
      .toBe("shown");
  });

  test("says that a session has no entry", async () => {
    const session = await createSession({ file: scratch.path("empty.jsonl") });
    const { id } = session;
    await session.close();
    const { url } = await scratch.serve(built());
    const page = await show(`${url}#/s/${id}`);
    await page.getByText("This session has no entry yet.").waitFor();
    await page.locator(".timeline").getByText("step 0 of 0").waitFor();
    await soon(() => page.locator(".timeline output").textContent()).toMatch(/^0 tokens/);
  });

  test("with --write it labels, hides, navigates, forks and compacts; without, it has no buttons for this", async () => {
    const reading = await showDemo();
    await reading.waitForSelector(".entry.selected");
    expect(await reading.getByRole("button", { name: "Fork" }).count()).toBe(0);
    await watched().context.close();

    const file = scratch.copy(DEMO);
    const { url } = await scratch.serve(built(), { write: true });
    const page = await show(`${url}#/s/${KEY}`);
    await page.waitForSelector(".entry.selected");
    const act = async (name: string, title: string) => {
      await page.locator(".entry.selected").getByRole("button", { name }).click();
      return page.getByRole("dialog", { name: title });
    };
    const labelling = await act("Label", "Label this entry");
    await labelling.getByRole("textbox").fill("<b>seen</b>");
    await labelling.getByRole("button", { name: "Label this entry" }).click();
    await page.locator(".entry.selected .tag").getByText("<b>seen</b>").waitFor();

    const forking = await act("Fork", "Fork a new session here");
    await forking.getByRole("button", { name: "Fork a new session here" }).click();
    await forking.getByText("The fork is").waitFor();
    await forking.getByRole("button", { name: "Close" }).click();

    await page.getByRole("button", { name: "Compact", exact: true }).click();
    const compacting = page.getByRole("dialog", { name: "Compact this session" });
    await compacting.getByRole("radio", { name: "token-budget" }).click();
    await compacting.getByRole("button", { name: "Compact this session" }).click();
    await compacting.getByText("Nothing was changed").waitFor();
    await compacting.getByRole("button", { name: "Close" }).click();

    await soon(() => selectedText(page)).toContain("ready for review");
    const hiding = await act("Hide", "Hide this entry from the model");
    await hiding.getByRole("button", { name: "Hide this entry from the model" }).click();
    await page.locator(".entry.selected").getByText("hidden from the model").waitFor();
    const showing = await act("Show", "Let the model read this entry again");
    await showing.getByRole("button", { name: "Let the model read this entry again" }).click();
    await page.locator(".entry.selected").getByRole("button", { name: "Hide" }).waitFor();

    await page.getByRole("tree").focus();
    await page.keyboard.press("[");
    await soon(() => selectedText(page)).toContain("Compaction");
    const going = await act("Go here", "Continue from this entry");
    await going.getByRole("button", { name: "Continue from this entry" }).click();
    await page.locator(".tree-line.kind-c .leaf").waitFor();
    const session = await openSession({ file }, { mode: "read" });
    expect(session.getEntry(session.leafId!)?.type).toBe("compaction");
    await session.close();
  });

  test("hiding an entry by the keyboard keeps the focus on its tool, which then shows it again", async () => {
    const page = await showDemo("", { write: true });
    const focused = () => page.evaluate(() => document.activeElement?.textContent);
    await page.locator(".entry.selected").getByRole("button", { name: "Hide" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Hide this entry from the model" }).press("Enter");
    await page.locator(".entry.selected").getByText("hidden from the model").waitFor();
    await soon(focused).toBe("Show");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Let the model read this entry again" }).press("Enter");
    await soon(focused).toBe("Hide");
  });

  test("a change does not move a selection that the user has moved on, however late its costs are", async () => {
    const page = await showDemo("", { write: true });
    await page.waitForSelector(".entry.selected");
    let costsRead = 0;
    await page.route("**/breaks", async (route) => {
      await new Promise((resolve) => setTimeout(resolve, 1_000));
      await route.continue();
      costsRead++;
    });
    const tree = page.getByRole("tree");
    const moveOn = async () => {
      const before = costsRead;
      await tree.focus();
      await page.keyboard.press("[");
      await soon(() => selectedText(page)).toContain("Compaction");
      await soon(() => costsRead).toBeGreaterThan(before);
      await page.waitForTimeout(200);
      expect(await selectedText(page)).toContain("Compaction");
    };

    await page.locator(".entry.selected").getByRole("button", { name: "Label" }).click();
    await page.getByRole("textbox", { name: "Label" }).fill("seen");
    await page.getByRole("button", { name: "Label this entry" }).click();
    await page.locator(".entry.selected .tag").getByText("seen").waitFor();
    await moveOn();

    await page.getByRole("button", { name: "Undo", exact: true }).click();
    await page.getByRole("dialog", { name: "Undo" }).getByRole("button", { name: "Undo" }).click();
    await page.locator(".entry.selected .tag").getByText("seen").waitFor({ state: "detached" });
    await page.locator(".tree-line.selected .leaf").waitFor();
    await moveOn();
  });

  test.skipIf(!existsSync(CORPUS))("navigates a large real session", async () => {
    scratch.copy(CORPUS);
    const { url } = await scratch.serve(built());
    const page = await show(url);
    await page.locator(".session", { hasText: "pi-mono" }).click();
    await page.waitForSelector(".entry.selected");
    await page.getByRole("tree").focus();
    for (const key of ["Home", "End", "PageUp", "PageUp"]) await page.keyboard.press(key);
    for (const tab of ["What the model reads", "Compactions", "Usage", "Compare", "Conversation"])
      await page.getByRole("tab", { name: tab }).click();
    await page.locator(".entry .call").first().waitFor();
  });

  test("executes and fetches nothing of a session, whatever its content", async () => {
    const file = scratch.path("attack.jsonl");
    writeAttackSession(file);
    const { url } = await scratch.serve(built());
    const page = await show(url);
    await page.locator(".session", { hasText: "script" }).click();
    await page.getByText("the end").first().waitFor();
    for (const tab of ["What the model reads", "Compactions", "Usage", "Compare", "Conversation"]) {
      await page.getByRole("tab", { name: tab }).click();
      await page.waitForTimeout(50);
    }
    // Every attack comes into sight, opened.
    const rows = ATTACKS.map((_, at) => at * 4 + 1);
    const slider = page.getByRole("slider", { name: "Step of the session" });
    for (const row of rows) {
      // A label after each three entries stands beside the path.
      await slider.evaluate(
        (input: HTMLInputElement, step) => {
          input.value = String(step);
          input.dispatchEvent(new Event("input", { bubbles: true }));
        },
        row - Math.floor(row / 4),
      );
      await page.waitForSelector(`.entry.selected[data-row="${row}"]`);
      await page.evaluate(() => {
        for (const details of document.querySelectorAll("details")) details.open = true;
      });
    }
    for (const link of await page.locator("a[href]").all()) {
      expect(await link.getAttribute("href")).toMatch(/^(https?:|mailto:|#)/);
      if (!(await link.getAttribute("href"))?.startsWith("#"))
        expect(await link.getAttribute("rel")).toContain("noopener");
    }
    expect(
      await page
        .locator("#app :is(script, iframe, object, embed, form:not(dialog form), style, link)")
        .count(),
    ).toBe(0);
    expect(await page.getByText("U+202E").count()).toBeGreaterThan(0);
    expect(await page.evaluate(() => "__ran" in globalThis || "polluted" in {})).toBe(false);
    expect(
      watched().requests.filter((request) => !request.startsWith(url) && !request.startsWith("data:")),
    ).toEqual([]);
    expect(page.url().startsWith(url)).toBe(true);
  });

  test("an exported file shows the session without a server and sends no request", async () => {
    const session = await demo();
    const html = scratch.path("export.html");
    writeFileSync(html, [...(await htmlOf(session, { page: built() }))].join(""));
    await session.close();
    const page = await show(`file://${html}`);
    await page.getByText("ready-to-release").first().waitFor();
    await page.keyboard.press("3");
    await page.getByText("Covered: 83 entries").waitFor();
    await page.fill("#find", "harmonic");
    await page.locator(".found button").first().waitFor();
    expect(watched().requests.filter((request) => !/^(file|data):/.test(request))).toEqual([]);
    expect(await page.getByText("one path, without").count()).toBe(0);
  });

  test("an exported path names beside its title how many entries it leaves out", async () => {
    const session = await demo();
    const html = scratch.path("path.html");
    writeFileSync(html, [...(await htmlOf(session, { page: built(), at: "vPdDiWYGH0ya" }))].join(""));
    await session.close();
    const page = await show(`file://${html}`);
    const [, shown, others] = /^(\d+) entries · one path, without (\d+) other entries$/.exec(
      (await page.getByText("one path, without").textContent())!,
    )!;
    expect(Number(shown) + Number(others)).toBe(212);
  });

  test("a file dropped onto the page is shown without a server; one that is not a session is refused", async () => {
    const page = await show(`file://${built()}`);
    await page.getByText("Drop a session file here").waitFor();
    const drop = (name: string, text: string) =>
      page.evaluate(
        ([fileName, content]) => {
          const data = new DataTransfer();
          data.items.add(new File([content!], fileName!));
          globalThis.dispatchEvent(new DragEvent("drop", { dataTransfer: data, cancelable: true }));
        },
        [name, text],
      );
    await drop("notes.txt", "no session");
    await page.getByRole("alert").getByText("notes.txt").waitFor();
    await drop("demo.jsonl", readFileSync(DEMO, "utf8"));
    await page.getByText("ready-to-release").first().waitFor();
  });

  test("a narrow screen shows one panel at a time, also in the dark theme", async () => {
    const page = await showDemo("", { viewport: { width: 400, height: 760 }, colorScheme: "dark" });
    await page.waitForSelector(".entry.selected");
    expect(await page.getByRole("tree").isVisible()).toBe(false);
    await page.getByRole("button", { name: "Tree" }).click();
    await soon(() => page.getByRole("tree").isVisible()).toBe(true);
    const dark = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await page.getByRole("button", { name: "Change to light" }).click();
    expect(await page.evaluate(() => getComputedStyle(document.body).backgroundColor)).not.toBe(dark);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    expect(wide).toBeLessThanOrEqual(400);
  });
});
