import { existsSync } from "node:fs";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";

const PROGRAM = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((path) =>
  existsSync(path),
);

/** Whether there is a browser to drive; where there is none, that is said once. */
export const hasBrowser = PROGRAM !== undefined;
if (!hasBrowser) console.warn("chromium is not installed: pages are not driven in a browser.");

const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--no-first-run",
];

export const startBrowser = (): Promise<Browser> =>
  chromium.launch({ executablePath: PROGRAM ?? "", args: FLAGS, timeout: 60_000 });

/** A page that is watched: what it asked for, and what went wrong in it. */
export interface WatchedPage {
  page: Page;
  context: BrowserContext;
  /** Addresses that were asked for. */
  requests: string[];
  /** Errors that nobody caught, violations of the policy, dialogs. */
  troubles: string[];
}

export async function watchedPage(browser: Browser, options: object = {}): Promise<WatchedPage> {
  const context = await browser.newContext({ viewport: { width: 1360, height: 860 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(45_000);
  const requests: string[] = [];
  const troubles: string[] = [];
  page.on("request", (request) => requests.push(request.url()));
  page.on("pageerror", (error) => troubles.push(error.message));
  page.on("dialog", (dialog) => {
    troubles.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("console", (message) => {
    if (message.type() === "error") troubles.push(message.text());
  });
  return { page, context, requests, troubles };
}
