// A picture of the terminal's interface for the README, from a real run on the demo's session:
// node scripts/terminal-picture.mjs (needs tmux)
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { root } from "./tools.mjs";

const COLUMNS = 124;
const ROWS = 34;

/** Keys that are pressed: they lead to the first label, whose answer has a table. */
const KEYS = ["<", "}"];
const SHOWS = /▸.*\[before-cache\]/;

const folder = mkdtempSync(join(tmpdir(), "terminal-"));
const session = join(folder, "tidepool.jsonl");
copyFileSync(join(root, "apps/cli/assets/demo-session.jsonl"), session);
const socket = `espalier-picture-${process.pid}`;
const tmux = (/** @type {string[]} */ ...parameters) =>
  execFileSync("tmux", ["-L", socket, "-f", "/dev/null", ...parameters], { encoding: "utf8" });
const start = [process.execPath, join(root, "scripts/espalier.mjs"), session]
  .map((part) => `'${part}'`)
  .join(" ");
const command = `env -u NO_COLOR ESPALIER_HOME='${folder}' FORCE_COLOR=1 ${start}`;

/** Returns the content of the pane when it matches a pattern. */
async function shown(/** @type {RegExp} */ pattern) {
  for (const end = Date.now() + 60_000; Date.now() < end; await setTimeout(100))
    if (pattern.test(tmux("capture-pane", "-p"))) return;
  throw new Error(`The screen never showed ${pattern}:\n${tmux("capture-pane", "-p")}`);
}

try {
  tmux("new-session", "-d", "-x", String(COLUMNS), "-y", String(ROWS), command);
  await shown(/212 entries/);
  tmux("send-keys", ...KEYS);
  await shown(SHOWS);
  await setTimeout(500);
  const screen = tmux("capture-pane", "-p", "-e");
  mkdirSync(join(root, "docs/pictures"), { recursive: true });
  writeFileSync(join(root, "docs/pictures/terminal.svg"), pictureOf(screen.replace(/\n$/, "").split("\n")));
} finally {
  tmux("kill-server");
  rmSync(folder, { recursive: true });
}

/** Draws a screen that tmux captured with its colours as an SVG picture. */
function pictureOf(/** @type {string[]} */ lines) {
  const [width, height] = [8.4, 18];
  const texts = lines.map((line, row) => {
    let column = 0;
    const spans = piecesOf(line).map(({ text, classes }) => {
      const x = (12 + column * width).toFixed(1);
      column += columnsOf(text);
      const length = (columnsOf(text) * width).toFixed(1);
      const size = `textLength="${length}" lengthAdjust="spacingAndGlyphs"`;
      const y = 12 + row * height;
      const back = classes.includes("selected")
        ? `<rect x="${x}" y="${y}" width="${length}" height="${height}" class="back"/>`
        : "";
      return text.trim() === "" && back === ""
        ? ""
        : `${back}<text x="${x}" y="${y + 13.5}" ${size} class="${classes.join(" ")}">${escaped(text)}</text>`;
    });
    return spans.join("");
  });
  const [w, h] = [Math.ceil(24 + COLUMNS * width), 24 + lines.length * height];
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${w} ${h}" width="${w}" height="${h}" role="img" aria-label="The terminal's interface: a session's tree, and what was said at the cursor">
<style>text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#d5d9e0;white-space:pre}
.bold{font-weight:700}.dim{opacity:.55}.c1{fill:#f07178}.c2{fill:#8fd694}.c3{fill:#f5d06f}.c4{fill:#82aaff}.c5{fill:#d39df0}.c6{fill:#79d5dd}.selected{fill:#fff}.back{fill:#2c56a3}</style>
<rect width="${w}" height="${h}" rx="8" fill="#1b1f27"/>
${texts.filter(Boolean).join("\n")}
</svg>
`;
}

/** Splits a captured line into pieces, each with one style. */
function piecesOf(/** @type {string} */ line) {
  /** @type {Set<string>} */
  const look = new Set();
  const pieces = [];
  for (const [at, part] of line.split(/\u001b\[([\d;]*)m/).entries()) {
    if (at % 2 === 0) {
      if (part !== "") pieces.push({ text: part, classes: [...look] });
      continue;
    }
    for (const code of part === "" ? ["0"] : part.split(";")) {
      const colour = /^3([1-6])$/.exec(code)?.[1];
      if (code === "0") look.clear();
      else if (code === "1") look.add("bold");
      else if (code === "2") look.add("dim");
      else if (code === "44") look.add("selected");
      else if (code === "49") look.delete("selected");
      else if (code === "22") for (const one of ["bold", "dim"]) look.delete(one);
      if (code === "39" || colour) for (const one of [...look]) if (/^c\d$/.test(one)) look.delete(one);
      if (colour) look.add(`c${colour}`);
    }
  }
  return pieces;
}

/** On this screen only emoji take two columns. */
function columnsOf(/** @type {string} */ text) {
  let columns = 0;
  for (const character of text) columns += /\p{Emoji_Presentation}/u.test(character) ? 2 : 1;
  return columns;
}

function escaped(/** @type {string} */ text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}
