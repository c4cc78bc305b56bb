// Each text is a message of its own in one session, which a browser shows one after the other.
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { SLOW_TEXTS } from "@espalier/session-tree/testing";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { hasBrowser, startBrowser, watchedPage } from "./browser.ts";
import { Scratch } from "./scratch.ts";

const ROOT = new URL("../../..", import.meta.url).pathname;
const scratch = new Scratch();
let browser: Browser;

beforeAll(async () => {
  if (!hasBrowser) return;
  execFileSync(process.execPath, [`${ROOT}scripts/build-viewer.mjs`, scratch.path("page")]);
  browser = await startBrowser();
}, 120_000);
afterAll(async () => {
  await browser?.close();
  await scratch.end();
});

test.skipIf(!hasBrowser)(
  "a text that is built to be slow is shown on the page",
  { timeout: 900_000 },
  async () => {
    const header = {
      type: "session",
      version: 3,
      id: "slow",
      timestamp: "2026-01-01T00:00:00.000Z",
      cwd: "/project",
    };
    const entries = SLOW_TEXTS.map(({ text }, at) => ({
      type: "message",
      id: `slow${at}`,
      parentId: null,
      timestamp: "2026-01-01T00:00:00.000Z",
      message: { role: "user", content: text, timestamp: 1 },
    }));
    writeFileSync(
      scratch.path("slow.jsonl"),
      [header, ...entries].map((line) => `${JSON.stringify(line)}\n`).join(""),
    );
    const { url } = await scratch.serve(scratch.path("page/index.html"));
    const { page, context, troubles } = await watchedPage(browser);
    await page.goto(`${url}#/s/slow?entry=slow0`);
    const missing: string[] = [];
    for (const [at, { name }] of SLOW_TEXTS.entries()) {
      const isShown = await page.evaluate(async (row) => {
        location.hash = location.hash.replace(/\?.*$/, `?entry=slow${row}`);
        const shown = `.entry[data-row="${row}"] :is(.markdown, pre.plain)`;
        for (const end = performance.now() + 120_000; performance.now() < end; ) {
          await new Promise((resolve) => setTimeout(resolve, 30));
          if (document.querySelector(shown)) break;
        }
        await new Promise((resolve) => setTimeout(resolve, 50));
        return document.querySelector(shown) !== null;
      }, at);
      if (!isShown) missing.push(name);
    }
    expect(missing).toEqual([]);
    expect(troubles).toEqual([]);
    await context.close();
  },
);
