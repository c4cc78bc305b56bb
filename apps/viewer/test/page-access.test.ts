import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { hasBrowser } from "./browser.ts";
import { shownPages } from "./shown-pages.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Sentences about what axe finds wrong in a page, each with its elements. */
async function violations(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() =>
    (globalThis as unknown as { axe: { run(): Promise<AxeResults> } }).axe.run(),
  );
  return violations.map(
    ({ id, help, nodes }) =>
      `${id}: ${help}\n${nodes
        .slice(0, 4)
        .map(({ html, any }) => `  ${html.slice(0, 160)} ${any[0]?.message ?? ""}`)
        .join("\n")}`,
  );
}

/** Panels, and an element that each has once it is there. */
const TABS = [
  ["Conversation", ".entry.selected"],
  ["What the model reads", ".pieces"],
  ["Compactions", ".summary-part"],
  ["Usage", ".plot"],
  ["Compare", ".picker"],
  ["Rules", ".panel h2"],
] as const;

/** Writes a session that has enough to be compacted, as every policy plans it. */
function writeLongSession(file: string): void {
  const words = "A long story about tides and harbours, told again and again. ".repeat(400);
  const cost = { total: 0.01 };
  const usage = { input: 10, output: 10, cacheRead: 5_000, cacheWrite: 100, totalTokens: 5_120, cost };
  const answer = {
    role: "assistant",
    provider: "anthropic",
    model: "claude-haiku-4-5",
    stopReason: "stop",
    usage,
  };
  const messages = Array.from({ length: 12 }, (_, at) => [
    { role: "user", content: `Question ${at}` },
    { ...answer, content: [{ type: "text", text: words }] },
  ]).flat();
  const timestamp = new Date(0).toISOString();
  const lines = messages.map((message, at) => ({
    type: "message",
    id: `m${at}`,
    parentId: at === 0 ? null : `m${at - 1}`,
    timestamp,
    message: { ...message, timestamp: 0 },
  }));
  const header = { type: "session", version: 3, id: "long", timestamp, cwd: "/home/ada/one" };
  writeFileSync(file, [header, ...lines].map((line) => `${JSON.stringify(line)}\n`).join(""));
}

/** Elements that are pressed and smaller than a finger, and those that are wider than the screen or scroll sideways. */
const unfitForPhones = (page: Page): Promise<string[]> =>
  page.evaluate(() => {
    const isShown = (element: HTMLElement) =>
      element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
    const told = (element: HTMLElement, fault: string) => `${element.outerHTML.slice(0, 100)}: ${fault}`;
    const all = [...document.querySelectorAll<HTMLElement>("body *")].filter(isShown);
    // Code keeps its lines, and the names of the panels are a row that moves.
    const mayScroll = "pre, .diff, .tabs";
    /** The part of an element that nothing around it cuts off. */
    const seenRight = (element: HTMLElement) => {
      let { right } = element.getBoundingClientRect();
      for (let around = element.parentElement; around; around = around.parentElement)
        if (getComputedStyle(around).overflowX !== "visible")
          right = Math.min(right, around.getBoundingClientRect().right);
      return right;
    };
    const wide = all.filter((element) => {
      if (element.closest(mayScroll)) return false;
      const scrolls = /auto|scroll/.test(getComputedStyle(element).overflowX);
      return (
        seenRight(element) > innerWidth + 1 || (scrolls && element.scrollWidth > element.clientWidth + 1)
      );
    });
    const pressed =
      "button, select, summary, input:not([type=range], [type=radio], [type=checkbox]), .brand, .session";
    const small = all
      .filter((element) => element.matches(pressed))
      .map((element) => ({ element, box: element.getBoundingClientRect() }))
      .filter(({ box }) => box.width > 0 && (box.height < 39.5 || box.width < 39.5));
    /** The width that a choice or a button needs for its text. */
    const needed = (element: HTMLElement) => {
      const copy = element.cloneNode(true) as HTMLElement;
      if (copy instanceof HTMLSelectElement)
        copy.selectedIndex = (element as HTMLSelectElement).selectedIndex;
      copy.style.cssText =
        "field-sizing: content; width: max-content; position: absolute; visibility: hidden";
      element.parentElement!.append(copy);
      const { width } = copy.getBoundingClientRect();
      copy.remove();
      return width;
    };
    const cut = all
      .filter((element) => element.matches("button:not(.found *, .branches *, .link, .wide), select"))
      .filter((element) => needed(element) > element.getBoundingClientRect().width + 1);
    return [
      ...cut.map((element) => told(element, `needs ${needed(element)} pixels for its text`)),
      ...wide.map((element) => told(element, "wider than the screen")),
      ...small.map(({ element, box }) => told(element, `${box.width}×${box.height}`)),
    ];
  });

const PHONE = { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true, write: true } as const;

describe.skipIf(!hasBrowser)("the page, for every user", () => {
  const { scratch, show, showDemo, built } = shownPages();

  test("on a phone has every panel within the screen, its name visible, and no control smaller than a finger", async () => {
    const page = await showDemo("", PHONE);
    await page.waitForSelector(".entry.selected");
    await page.locator(".timeline").getByLabel("Breaks of the prompt cache").waitFor();
    const unfit: string[] = [];
    const check = async (place: string) => {
      expect(await page.evaluate(() => document.documentElement.scrollWidth), place).toBeLessThanOrEqual(360);
      for (const fault of await unfitForPhones(page)) unfit.push(`${place}: ${fault}`);
    };
    for (const [name, ready] of TABS) {
      const tab = page.getByRole("tab", { name });
      await tab.tap();
      await page.waitForSelector(`#panel ${ready}`);
      const place = await tab.boundingBox();
      expect(place!.x, name).toBeGreaterThanOrEqual(0);
      expect(place!.x + place!.width, name).toBeLessThanOrEqual(360);
      await check(name);
    }
    await page.getByRole("tab", { name: "Compare" }).tap();
    await page.getByLabel("The other branch").tap();
    await page.locator(".branches [role=option]").first().tap();
    await page.waitForSelector(".side .entry");
    await check("two branches");
    await page.getByRole("button", { name: "Tree" }).tap();
    // The tree is where the chosen entry is.
    await page.waitForSelector(".tree-line.selected");
    await check("tree");
    await page.getByRole("button", { name: "Tree" }).tap();
    await page.fill("#find", "tide");
    await page.waitForSelector(".found button");
    await check("search");
    await page.getByRole("button", { name: "End the search" }).tap();
    for (const name of ["Undo", "Redo", "Compact", "Export", "Keys"]) {
      await page.getByRole("button", { name: "Acts" }).tap();
      await check("acts");
      await page.locator(".acts").getByRole("button", { name, exact: true }).tap();
      await page.waitForSelector("dialog[open]");
      if (name === "Compact") await page.waitForSelector(".policies");
      await check(name);
      await page.getByRole("button", { name: "Close" }).tap();
      await page.waitForSelector("dialog", { state: "detached" });
    }
    await page.getByRole("link", { name: "All sessions" }).tap();
    await page.waitForSelector(".session");
    await check("list");
    await page.fill("input[type=search]", "tide");
    await page.waitForSelector(".places .session");
    await check("search of all sessions");
    expect(unfit).toEqual([]);
  });

  test("on a phone shows the plan of a compaction without horizontal scrolling", async () => {
    writeLongSession(scratch.path("long.jsonl"));
    const { url } = await scratch.serve(built(), { write: true });
    const page = await show(`${url}#/s/long`, PHONE);
    await page.waitForSelector(".entry.selected");
    await page.getByRole("button", { name: "Acts" }).tap();
    await page.getByRole("button", { name: "Compact", exact: true }).tap();
    await page.locator(".plan").getByText("Summarized:").waitFor();
    expect(await unfitForPhones(page)).toEqual([]);
    const [form, table] = await page
      .locator("dialog")
      .evaluate((dialog) =>
        ["form", ".policies"].map((part) => dialog.querySelector(part)!.getBoundingClientRect().right),
      );
    expect(table).toBeLessThanOrEqual(form! + 0.5);
    const policy = page.locator(".policies tbody tr").first();
    expect(await policy.locator("td:visible").allTextContents()).toEqual([
      expect.stringContaining(" → "),
      expect.stringContaining("$"),
    ]);
  });

  test("on a phone shows the tools of an entry above its text", async () => {
    const page = await showDemo("", PHONE);
    await page.waitForSelector(".entry.selected");
    const [tools, body] = await page
      .locator(".entry.selected")
      .evaluate((card) =>
        [card.querySelector(".entry-tools")!, card.children[1]!].map((part) => part.getBoundingClientRect()),
      );
    expect(tools!.bottom).toBeLessThanOrEqual(body!.top + 0.5);
  });

  test.each(["light", "dark"] as const)(
    "has no fault that axe finds, in any view, %s",
    async (colorScheme) => {
      const page = await showDemo("", { colorScheme, write: true });
      await page.waitForSelector(".entry.selected");
      const wrong = new Set<string>();
      const check = async (place: string) => {
        for (const one of await violations(page)) wrong.add(`${place}: ${one}`);
      };
      for (const [tab, ready] of TABS) {
        await page.getByRole("tab", { name: tab }).click();
        await page.waitForSelector(`#panel ${ready}`);
        await check(tab);
      }
      await page.getByRole("tab", { name: "Compare" }).click();
      await page.getByLabel("The other branch").click();
      await page.locator(".branches [role=option]").first().click();
      await page.waitForSelector(".side .entry");
      await check("two branches");
      await page.fill("#find", "tide");
      await page.waitForSelector(".found button");
      await check("search");
      await page.keyboard.press("Escape");
      await page.getByRole("button", { name: "Bookkeeping" }).click();
      for (const name of ["Undo", "Redo", "Compact", "Export", "Keys"]) {
        await page.getByRole("button", { name, exact: true }).click();
        await page.waitForSelector("dialog[open]");
        if (name === "Compact") await page.waitForSelector(".policies");
        await check(name);
        await page.keyboard.press("Escape");
        await page.waitForSelector("dialog", { state: "detached" });
      }
      await page.getByRole("link", { name: "All sessions" }).click();
      await page.waitForSelector(".session");
      await check("list");
      expect([...wrong]).toEqual([]);
    },
  );
});
