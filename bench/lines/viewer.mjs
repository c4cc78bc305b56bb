// The viewer in a browser: time from an address to the visible tree, scrolling, and size of the page. The browser draws
// without a graphics card, as on a machine for tests.
import { spawn } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { median } from "../lib/bench.mjs";
import { atLeast, atMost, rowOf } from "../lib/goal.mjs";

const root = join(import.meta.dirname, "../..");
const BROWSER = "/usr/bin/chromium";
const FLAGS =
  "--no-sandbox --disable-gpu --disable-quic --disable-background-networking --no-first-run".split(" ");

const viewer = {
  name: "viewer",
  title: "Viewer",
  async run(bench) {
    const figures = existsSync(BROWSER) ? await measured(bench) : undefined;
    const { paint, words, usage, whole, frame, worst, page, slowest } = figures ?? {};
    const perSecond = frame === undefined ? undefined : 1_000 / frame;
    return [
      rowOf(
        "first sight of the tree, 100k entries, server and session cold",
        "ms",
        paint,
        [atMost("≤ 1,000 ms", paint, 1_000)],
        { facts: { words } },
      ),
      rowOf("Usage, 100k entries, opened at once", "ms", usage, [atMost("≤ 2,000 ms", usage, 2_000)]),
      rowOf("the whole tree drawn, 100k entries, nothing folded", "ms", whole, [
        atMost("≤ 2,000 ms", whole, 2_000),
      ]),
      rowOf(
        "a frame while the tree is moved through, 100k entries, nothing folded, median",
        "ms",
        frame,
        [atLeast("≥ 30 frames a second", perSecond, 30), atMost("no frame over 200 ms", worst, 200)],
        { facts: { worst } },
      ),
      rowOf("the page, gzip, without data", "KB", page, [atMost("≤ 300 KB", page, 300)]),
      rowOf("work for a text that is built to be slow, the worst", "ms", slowest, [
        atMost("≤ 1,000 ms", slowest, 1_000),
      ]),
    ];
  },
};

const FRAMES = 240;

async function measured(bench) {
  const { path } = bench.session({ entries: 100_000 });
  const { chromium } = createRequire(join(root, "apps/viewer/package.json"))("playwright-core");
  const browser = await chromium.launch({ executablePath: BROWSER, args: FLAGS });
  try {
    const sights = [];
    for (let round = 0; round < bench.count(3, 1); round++)
      sights.push(await firstSight(bench, browser, path));
    const medianOf = (field) => median(sights.map((sight) => sight[field]));
    const medians = ["paint", "words", "usage", "whole"].map((field) => [field, medianOf(field)]);
    const slowest = await slowestText(bench, browser);
    return { ...sights.at(-1), ...Object.fromEntries(medians), slowest };
  } finally {
    await browser.close();
  }
}

/** Starts a server of a session, and acts on a new page of the browser; `url` is the address of the session. */
async function serving(browser, path, act) {
  const server = spawn(process.execPath, [join(root, "scripts/espalier.mjs"), "serve", path], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  try {
    const url = await new Promise((tell) => server.stdout.once("data", (text) => tell(String(text).trim())));
    const context = await browser.newContext({ viewport: { width: 1360, height: 860 } });
    const answer = await act(await context.newPage(), url);
    await context.close();
    return answer;
  } finally {
    server.kill();
  }
}

/** Shows the session, and then scrolls through it. */
const firstSight = (bench, browser, path) =>
  serving(browser, path, async (page, url) => {
    await page.goto(url);
    await page.waitForFunction(() => performance.getEntriesByName("tree-painted").length > 0);
    const paint = await page.evaluate(() => performance.getEntriesByName("tree-painted")[0]?.startTime ?? 0);
    await page.waitForSelector(".tree-line .text:not(:empty)");
    const words = await page.evaluate(() => performance.now());
    const beforeUsage = performance.now();
    await page.getByRole("tab", { name: "Usage" }).click();
    await page.waitForSelector(".plot");
    const usage = performance.now() - beforeUsage;
    const beforeWhole = performance.now();
    await page.getByRole("button", { name: "Fold runs" }).click();
    await page.waitForFunction(
      (count) => Number(document.querySelector(".tree-line")?.getAttribute("aria-setsize")) > count,
      bench.count(50_000, 100),
    );
    const whole = performance.now() - beforeWhole;
    const frames = await page.evaluate(panned, bench.count(FRAMES, 10));
    const html = await (await fetch(url)).text();
    return {
      paint,
      words,
      usage,
      whole,
      frame: median(frames),
      worst: Math.max(...frames),
      page: gzipSync(html).length / 1_000,
    };
  });

/** Returns the largest processor time of the page's main thread, in milliseconds, for one of the slow texts. */
async function slowestText(bench, browser) {
  const { SLOW_TEXTS } = await import("../.work/slowTexts.mjs");
  const texts = SLOW_TEXTS.slice(0, bench.count(SLOW_TEXTS.length, 2));
  const timestamp = "2026-01-01T00:00:00.000Z";
  const entries = texts.map(({ text }, at) => ({
    type: "message",
    id: `slow${at}`,
    parentId: null,
    timestamp,
    message: { role: "user", content: text, timestamp: 1 },
  }));
  const header = { type: "session", version: 3, id: "slow", timestamp, cwd: "/" };
  const path = join(bench.scratch(), "slow.jsonl");
  writeFileSync(path, [header, ...entries].map((line) => `${JSON.stringify(line)}\n`).join(""));
  return await serving(browser, path, async (page, url) => {
    const devtools = await page.context().newCDPSession(page);
    await devtools.send("Performance.enable", { timeDomain: "threadTicks" });
    const worked = async () => {
      const { metrics } = await devtools.send("Performance.getMetrics");
      return metrics.find(({ name }) => name === "TaskDuration").value * 1_000;
    };
    const times = [];
    for (const at of entries.keys()) {
      const before = await worked();
      await page.goto(`${url}?entry=slow${at}`);
      await page.waitForSelector(`.entry[data-row="${at}"] :is(.markdown, pre.plain)`);
      // The first text waits for the page itself.
      if (at > 0) times.push((await worked()) - before);
    }
    return Math.max(...times);
  });
}

/** Runs in the page: scrolls through the whole tree in both directions; returns the milliseconds of each frame. */
async function panned(count) {
  const scroller = document.querySelector(".tree-scroller");
  if (!scroller) throw new Error("The page has no tree.");
  const nextFrame = () => new Promise((tell) => requestAnimationFrame(tell));
  await nextFrame();
  const frames = [];
  let before = performance.now();
  for (let at = 0; at < count; at++) {
    // Small steps as by touch; every tenth is a large one, as by the scroll bar.
    scroller.scrollTop = at % 10 === 0 ? (scroller.scrollHeight * at) / count : scroller.scrollTop + 90;
    await nextFrame();
    const now = performance.now();
    frames.push(now - before);
    before = now;
  }
  return frames;
}

export const lines = [viewer];
