// Answers that come late: what a user has done since then stays.
import { writeFileSync } from "node:fs";
import { openSession } from "@espalier/engine";
import type { Page } from "playwright-core";
import { afterAll, describe, expect, test } from "vitest";
import { hasBrowser } from "./browser.ts";
import { Scratch } from "./scratch.ts";
import { demo, selectedRow, selectedText, shownPages } from "./shown-pages.ts";

/** Waits for a value, on a busy machine too. */
const soon = <Value>(read: () => Value | Promise<Value>) => expect.poll(read, { timeout: 40_000 });

/** Requests that wait for their release. */
interface HeldRequests {
  count(): number;
  /** Sends a request; resolves when its answer has been drawn. */
  release(at: number): Promise<void>;
}

/** Holds back the requests with an address. */
async function hold(page: Page, address: RegExp): Promise<HeldRequests> {
  const held: { url: string; go: () => void }[] = [];
  await page.route(address, async (route) => {
    await new Promise<void>((go) => held.push({ url: route.request().url(), go }));
    // The page may have withdrawn its request.
    await route.continue().catch(() => undefined);
  });
  return {
    count: () => held.length,
    async release(at) {
      const { url, go } = held[at]!;
      const ended = Promise.race([
        page.waitForEvent("requestfinished", (request) => request.url() === url),
        page.waitForEvent("requestfailed", (request) => request.url() === url),
      ]);
      go();
      await ended;
      await drawn(page);
    },
  };
}

/** Resolves when the page has drawn what it knows. */
const drawn = (page: Page) =>
  page.evaluate(
    () =>
      new Promise<void>((resolve) => {
        requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(resolve, 50)));
      }),
  );

const user = (id: string, parentId: string | null, content: string) => ({
  type: "message",
  id,
  parentId,
  timestamp: new Date(0).toISOString(),
  message: { role: "user", content, timestamp: 0 },
});

function writeSession(folder: Scratch, id: string, entries: readonly object[]): string {
  const file = folder.path(`${id}.jsonl`);
  const header = { type: "session", version: 3, id, timestamp: new Date(0).toISOString(), cwd: "/home/ada" };
  writeFileSync(file, [header, ...entries].map((line) => `${JSON.stringify(line)}\n`).join(""));
  return file;
}

describe.skipIf(!hasBrowser)("a late answer", () => {
  const { built, show, showDemo } = shownPages();
  const folders: Scratch[] = [];
  const ownFolder = () => {
    const own = new Scratch();
    folders.push(own);
    return own;
  };
  afterAll(async () => {
    for (const folder of folders) await folder.end();
  });

  const goTo = (page: Page, id: string) =>
    page.evaluate((entry) => {
      location.hash = `${location.hash.split("?")[0]}?entry=${entry}`;
    }, id);

  test("to an earlier address does not take back a newer address or a newer selection", async () => {
    const session = await demo();
    const prompts = session
      .getBranch()
      .filter((entry) => JSON.stringify(entry).includes('"role":"user"'))
      .map(({ id }) => ({ id, row: session.tree.row(id) }));
    await session.close();
    const [first, second] = prompts;
    const page = await showDemo();
    await page.waitForSelector(".entry.selected");
    const rows = await hold(page, /\/row\?id=/);
    await goTo(page, first!.id);
    await soon(rows.count).toBe(1);
    await goTo(page, second!.id);
    await soon(rows.count).toBe(2);
    await rows.release(1);
    await soon(() => selectedRow(page)).toBe(String(second!.row));
    await rows.release(0);
    expect(await selectedRow(page)).toBe(String(second!.row));

    await goTo(page, first!.id);
    await soon(rows.count).toBe(3);
    await page.keyboard.press("]");
    await soon(() => selectedText(page)).toContain("Compaction");
    await rows.release(2);
    expect(await selectedText(page)).toContain("Compaction");
    // The address follows the selection.
    await soon(() => page.url()).not.toContain(first!.id);
    await page.unroute(/\/row\?id=/);
    await page.reload();
    await soon(() => selectedText(page)).toContain("Compaction");
  });

  test("to the search before is not stepped through as a hit of the new search", async () => {
    const page = await showDemo();
    await page.waitForSelector(".entry.selected");
    const output = () => page.locator(".find output").textContent();
    await page.fill("#find", "harmonic");
    await soon(output).toMatch(/\d/);
    const before = await selectedRow(page);
    const found = await hold(page, /\/find\?q=station/);
    await page.fill("#find", "station");
    await page.keyboard.press("Enter");
    await soon(found.count).toBe(1);
    await page.keyboard.press("Enter");
    await drawn(page);
    expect(await selectedRow(page)).toBe(before);
    await found.release(0);
    await soon(output).toMatch(/\d/);
    await page.keyboard.press("Enter");
    await soon(() => selectedRow(page)).not.toBe(before);
    expect(await output()).toMatch(/^\d+ of \d+$/);
  });

  test("to a search of all sessions is not shown as the answer to the next one", async () => {
    const own = ownFolder();
    writeSession(own, "one", [user("a", null, "Mend the lock")]);
    const page = await show((await own.serve(built())).url);
    await page.fill("input[type=search]", "nowhere");
    const none = page.getByRole("heading", { name: "No message has this text" });
    await none.waitFor();
    const searches = await hold(page, /\/search\?q=lock/);
    await page.fill("input[type=search]", "lock");
    await soon(searches.count).toBe(1);
    await drawn(page);
    expect(await none.count()).toBe(0);
    await page.getByText("Searching…").waitFor();
    await searches.release(0);
    await page.getByRole("heading", { name: "Found in 1 session" }).waitFor();
  });

  test("to a chosen rule does not take back a newer selection", async () => {
    const page = await showDemo("/rules");
    const rows = await hold(page, /\/row\?id=/);
    await page.locator(".rules button").first().click();
    await soon(rows.count).toBe(1);
    await page.keyboard.press("[");
    await soon(() => selectedText(page)).toContain("Compaction");
    await rows.release(0);
    expect(await selectedText(page)).toContain("Compaction");
  });

  test("of new branches does not change which branch is marked", async () => {
    const own = ownFolder();
    const file = writeSession(own, "ways", [
      user("u1", null, "Which way?"),
      ...Array.from({ length: 4 }, (_, at) => user(`b${at}`, "u1", `Way number ${at}`)),
    ]);
    const page = await show(`${(await own.serve(built())).url}#/s/ways/compare`);
    await page.getByLabel("The other branch").click();
    await page.getByRole("option", { name: "Way number 2" }).waitFor();
    await page.keyboard.press("ArrowDown");
    const marked = page.locator(".branches [aria-selected=true]");
    await soon(() => marked.textContent()).toContain("Way number 1");
    const session = await openSession({ file });
    await session.navigate("u1", { summarize: false });
    await session.appendMessages([{ role: "user", content: "Way number 4" }]);
    await session.close();
    await page.getByRole("option", { name: "Way number 3" }).waitFor();
    expect(await marked.textContent()).toContain("Way number 1");
    await page.keyboard.press("Enter");
    await soon(() => page.url()).toContain("other=b1");
  });

  test("to what the model reads gets the click that was meant for it", async () => {
    const page = await showDemo("/context");
    await page.locator(".pieces summary").first().waitFor();
    const contexts = await hold(page, /\/context\?/);
    await page.keyboard.press("Home");
    await soon(contexts.count).toBe(1);
    const clicked = page.locator(".pieces summary").first().click();
    await Promise.race([clicked, drawn(page)]);
    expect(await page.locator(".pieces details[open]").count()).toBe(0);
    await contexts.release(0);
    await clicked;
    expect(await page.locator(".pieces details[open]").count()).toBe(1);
    expect(await page.locator(".pieces > li").count()).toBe(1);
  });

  test("does not close a dialog that was opened since", async () => {
    const page = await showDemo();
    await page.waitForSelector(".entry.selected");
    await page.getByRole("button", { name: "Export" }).click();
    await page.getByRole("radio", { name: "the path that is shown" }).click();
    const gists = await hold(page, /\/gists\?/);
    await page.getByRole("button", { name: "Save" }).click();
    await soon(gists.count).toBe(1);
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
    await page.keyboard.press("?");
    const keys = page.getByRole("dialog", { name: "Keys" });
    await keys.waitFor();
    await Promise.all([page.waitForEvent("download"), gists.release(0)]);
    await drawn(page);
    expect(await keys.count()).toBe(1);
  });

  test("does not print a conversation that the user has left", async () => {
    const page = await showDemo();
    await page.waitForSelector(".entry.selected");
    await page.evaluate(() => {
      globalThis.print = () => Object.assign(globalThis, { isPrinted: true });
    });
    const entries = await hold(page, /\/entries\?/);
    await page.keyboard.press("Control+p");
    await soon(entries.count).toBe(1);
    await page.keyboard.press("4");
    await page.locator(".plot").first().waitFor();
    await entries.release(0);
    await page.unroute(/\/entries\?/);
    await page.keyboard.press("1");
    await page.waitForSelector(".entry.selected");
    await drawn(page);
    expect(await page.evaluate(() => "isPrinted" in globalThis)).toBe(false);
  });

  test("of further entries does not scroll back to the selected one", async () => {
    const page = await showDemo();
    await page.waitForSelector(".entry.selected");
    const top = () => page.locator(".conversation").evaluate((element) => element.scrollTop);
    const first = () => page.locator(".entry").first().getAttribute("data-row");
    await soon(top).toBeGreaterThan(0);
    const before = await first();
    await page.locator(".conversation").evaluate((element) => element.scrollTo(0, 0));
    await soon(first).not.toBe(before);
    await drawn(page);
    const place = await page
      .locator(".entry.selected")
      .evaluate((entry) => [entry.getBoundingClientRect().top, innerHeight]);
    expect(place[0]).toBeGreaterThan(place[1]!);
  });

  test("that fails is reported above the session, which stays", async () => {
    const own = ownFolder();
    writeSession(own, "costs", [user("u1", null, "Mend the lock")]);
    const server = await own.serve(built());
    const page = await show("about:blank");
    const costs = await hold(page, /\/spending$/);
    await page.goto(`${server.url}#/s/costs`);
    await soon(costs.count).toBe(1);
    await page.waitForSelector(".entry.selected");
    await page.getByRole("button", { name: "Export" }).click();
    await page.route(/\/breaks$/, (route) => route.fulfill({ json: {} }));
    await costs.release(0);
    await page.getByRole("alert").waitFor();
    expect(await page.getByRole("dialog", { name: "Export" }).count()).toBe(1);
  });

  test("tells an open dialog what an undo would take back now", async () => {
    const own = ownFolder();
    const file = writeSession(own, "acts", [user("u1", null, "Mend the lock")]);
    const server = await own.serve(built(), { write: true });
    const page = await show(`${server.url}#/s/acts`);
    await page.waitForSelector(".entry.selected");
    await page.getByRole("button", { name: "Undo", exact: true }).click();
    await page.getByText("Undoes your prompt").waitFor();
    const session = await openSession({ file });
    await session.label("u1", "begin");
    await session.close();
    await page.getByText("Undoes your label").waitFor();
  });

  test("lets an undo take back only what its dialog has shown", async () => {
    const own = ownFolder();
    const file = writeSession(own, "shown", [user("u1", null, "Mend the lock")]);
    const server = await own.serve(built(), { write: true });
    const page = await show("about:blank");
    // The page is told of no newer entry.
    await hold(page, /\/events$/);
    await page.goto(`${server.url}#/s/shown`);
    await page.waitForSelector(".entry.selected");
    await page.getByRole("button", { name: "Undo", exact: true }).click();
    const dialog = page.getByRole("dialog", { name: "Undo" });
    await dialog.getByText("Undoes your prompt").waitFor();
    const session = await openSession({ file });
    await session.label("u1", "begin");
    await session.close();
    await dialog.getByRole("button", { name: "Undo" }).click();
    await dialog.getByRole("alert").getByText("The newest action is now the label").waitFor();
    await dialog.getByText("Undoes your label").waitFor();
    const reopened = await openSession({ file }, { mode: "read" });
    expect(reopened.getLabel("u1")).toBe("begin");
    await reopened.close();
    await dialog.getByRole("button", { name: "Undo" }).click();
    await dialog.waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Redo", exact: true }).click();
    await page.getByRole("dialog", { name: "Redo" }).getByText("Restores your label").waitFor();
  });
});

describe.skipIf(!hasBrowser)("what happens before a page is painted", () => {
  const { built, scratch, show, showDemo } = shownPages();

  test("is not missed: a key", async () => {
    const page = await showDemo();
    // Presses the key in the task that draws the tree.
    await page.addInitScript(() => {
      new MutationObserver((_, observer) => {
        if (!document.querySelector(".tree-line")) return;
        observer.disconnect();
        document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "Home", bubbles: true }));
      }).observe(document, { childList: true, subtree: true });
    });
    await page.reload();
    await page.locator(".tree-line.selected[aria-posinset='1']").waitFor();
  });

  test("is not missed: a session that comes before the events begin", async () => {
    writeSession(scratch, "first", [user("a", null, "Mend the lock")]);
    const server = await scratch.serve(built());
    const page = await show("about:blank");
    const events = await hold(page, /\/api\/events$/);
    await page.goto(server.url);
    const titles = () => page.locator(".sessions .title").allTextContents();
    await soon(titles).toContain("Mend the lock");
    await soon(events.count).toBe(1);
    writeSession(scratch, "second", [user("a", null, "Paint the boat")]);
    // Events have no end, so only their beginning is waited for.
    void events.release(0).catch(() => undefined);
    await soon(titles).toContain("Paint the boat");
  });
});
