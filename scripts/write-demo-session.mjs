// Writes the session that the demo, the tests and the screenshots show: apps/cli/assets/demo-session.jsonl.
//
//     node scripts/write-demo-session.mjs            write it
//     node scripts/write-demo-session.mjs --check    exit 1 when the file is not what the screenplay gives
//
// The story stands in demo-session/*.txt, in the order of the file names. Ids, times and costs are derived from it, so
// that every run gives the same bytes.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { checkSession } from "./demo-session/check.mjs";
import { createRecorder } from "./demo-session/recorder.mjs";
import { parseScreenplay } from "./demo-session/screenplay.mjs";
import { playOnto } from "./demo-session/stage.mjs";

const CHAPTERS = new URL("./demo-session/", import.meta.url);
const TARGET = new URL("../apps/cli/assets/demo-session.jsonl", import.meta.url);

const directions = readdirSync(CHAPTERS)
  .filter((name) => name.endsWith(".txt"))
  .sort()
  .flatMap((name) => parseScreenplay(readFileSync(new URL(name, CHAPTERS), "utf8"), name));
const recorder = createRecorder({
  seed: 0x71de,
  startedAt: "2026-03-07T17:04:12.000Z",
  cwd: "/home/ada/tidepool",
});
playOnto(recorder, directions);
const text = recorder.text();
checkSession(text);

const path = fileURLToPath(TARGET);
if (!process.argv.includes("--check")) {
  mkdirSync(new URL("./", TARGET), { recursive: true });
  writeFileSync(TARGET, text);
} else if (readFileSync(TARGET, "utf8") !== text) {
  console.error(`${path} is not what the screenplay gives: run node scripts/write-demo-session.mjs`);
  process.exitCode = 1;
}
