import { readFileSync } from "node:fs";
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

describe.skipIf(!hasBrowser)("the page, for every user", () => {
  const { showDemo } = shownPages();

  test.each(["light", "dark"] as const)(
    "has nothing that axe finds wrong, in any view, %s",
    async (colorScheme) => {
      const page = await showDemo("", { colorScheme, write: true });
      await page.waitForSelector(".entry.selected");
      const wrong = new Set<string>();
      const check = async (place: string) => {
        for (const one of await violations(page)) wrong.add(`${place}: ${one}`);
      };
      for (const [tab, ready] of [
        ["Conversation", ".entry.selected"],
        ["What the model reads", ".pieces"],
        ["Compactions", ".summary-part"],
        ["Usage", ".plot"],
        ["Compare", ".picker"],
        ["Rules", ".panel h2"],
      ] as const) {
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
