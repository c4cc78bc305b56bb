// Pictures of the viewer for the README, of the demo's session: node scripts/viewer-pictures.mjs
import { spawn } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { root } from "./tools.mjs";

const BROWSER = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"];
const pictures = join(root, "docs/pictures");

/** Content of each picture: a part of the page, at an entry. */
const SCENES = [
  { name: "viewer-tree", colours: "light", entry: "bAP06xkp4nVl", tab: "" },
  { name: "viewer-context", colours: "dark", entry: "fGXZeWgRODjk", tab: "/context" },
];

const folder = mkdtempSync(join(tmpdir(), "pictures-"));
mkdirSync(pictures, { recursive: true });
copyFileSync(join(root, "apps/cli/assets/demo-session.jsonl"), join(folder, "demo-session.jsonl"));
const server = spawn(process.execPath, [join(root, "scripts/espalier.mjs"), "serve", folder], {
  stdio: ["ignore", "pipe", "inherit"],
});
const { chromium } = createRequire(join(root, "apps/viewer/package.json"))("playwright-core");
const browser = await chromium.launch({ executablePath: BROWSER, args: FLAGS });
try {
  const url = await new Promise((tell) => server.stdout.once("data", (text) => tell(String(text).trim())));
  const sessions = /** @type {any} */ (await (await fetch(`${url}api/sessions`)).json());
  for (const { name, colours, entry, tab } of SCENES) {
    const page = await browser.newPage({ viewport: { width: 1240, height: 760 }, colorScheme: colours });
    await page.goto(`${url}#/s/${sessions[0].key}${tab}?entry=${entry}`);
    await page.waitForSelector(".tree-line.selected .text:not(:empty)");
    await page.waitForSelector(tab === "" ? ".entry.selected" : ".pieces");
    await page.waitForSelector(".timeline path");
    await page.evaluate(() => new Promise((tell) => setTimeout(tell, 800)));
    await page.screenshot({ path: join(pictures, `${name}.png`) });
    await page.close();
  }
} finally {
  await browser.close();
  server.kill();
  rmSync(folder, { recursive: true });
}
