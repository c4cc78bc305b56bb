// The viewer in a browser: time from an address to the visible tree, scrolling, and size of the page. The browser draws
// without a graphics card, as on a machine for tests.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
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
    const { paint, words, usage, whole, frame, worst, page } = figures ?? {};
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
    return { ...sights.at(-1), ...Object.fromEntries(medians) };
  } finally {
    await browser.close();
  }
}

/** Starts a server, shows the session, and then scrolls through it. */
async function firstSight(bench, browser, path) {
  const server = spawn(process.execPath, [join(root, "scripts/espalier.mjs"), "serve", path], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  try {
    const url = await new Promise((tell) => server.stdout.once("data", (text) => tell(String(text).trim())));
    const context = await browser.newContext({ viewport: { width: 1360, height: 860 } });
    const page = await context.newPage();
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
    await context.close();
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
  } finally {
    server.kill();
  }
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
