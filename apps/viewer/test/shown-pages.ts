import { execFileSync } from "node:child_process";
import { openSession, type Session } from "@espalier/engine";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect } from "vitest";
import { startBrowser, type WatchedPage, watchedPage } from "./browser.ts";
import { DEMO, Scratch } from "./scratch.ts";

const ROOT = new URL("../../..", import.meta.url).pathname;

/** Key of the demo's session. */
export const KEY = "LTfrBGnUynOG";

/** The demo's session, as the engine reads it. */
export const demo = (): Promise<Session> => openSession({ file: DEMO }, { mode: "read" });

/** Text of the line of the tree that is looked at. */
export const selectedText = (page: Page) => page.locator(".tree-line.selected").textContent();

/** Row of that line. Its text grows when its cost is known, so a line is compared by this. */
export const selectedRow = (page: Page) => page.locator(".tree-line.selected").getAttribute("data-row");

interface ShownOptions extends BrowserContextOptions {
  write?: boolean;
}

/** Pages of one test file: the built page, a browser, and a folder of sessions. */
export interface ShownPages {
  scratch: Scratch;
  /** The built page, a file. */
  built(): string;
  /** The page that is shown now, with what went wrong in it. */
  watched(): WatchedPage;
  show(url: string, options?: BrowserContextOptions): Promise<Page>;
  /** Shows the demo's session, from a server that only reads, or with `write`. */
  showDemo(hash?: string, options?: ShownOptions): Promise<Page>;
}

/** Builds the page and starts a browser before the tests of a `describe`; nothing may go wrong in a page behind them. */
export function shownPages(): ShownPages {
  const scratch = new Scratch();
  const built = scratch.path("page/index.html");
  let browser: Browser;
  let watched: WatchedPage | undefined;
  beforeAll(async () => {
    execFileSync(process.execPath, [`${ROOT}scripts/build-viewer.mjs`, scratch.path("page")]);
    browser = await startBrowser();
  }, 120_000);
  afterEach(async () => {
    expect(watched?.troubles ?? []).toEqual([]);
    await watched?.context.close();
    watched = undefined;
  });
  afterAll(async () => {
    await browser?.close();
    await scratch.end();
  });
  const show = async (url: string, options: BrowserContextOptions = {}) => {
    watched = await watchedPage(browser, options);
    await watched.page.goto(url);
    return watched.page;
  };
  return {
    scratch,
    built: () => built,
    watched: () => watched!,
    show,
    async showDemo(hash = "", { write = false, ...options } = {}) {
      scratch.copy(DEMO);
      const { url } = await scratch.serve(built, { write });
      const page = await show(`${url}#/s/${KEY}${hash}`, options);
      await page.waitForSelector(".tree-line", { state: "attached" });
      return page;
    },
  };
}
