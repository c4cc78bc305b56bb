// Plays sequences on the real Pi, and reads files with it: started by npx, which puts Pi on the path.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { packageOfPi } from "./package-of-pi.ts";
import { type Call, play, tell } from "./play.ts";

const [input, output] = process.argv.slice(2);
const question: { folder: string; sequences?: Call[][]; files?: string[] } = JSON.parse(
  readFileSync(input!, "utf8"),
);
const { folder, sequences = [], files = [] } = question;
const { SessionManager } = await import(
  pathToFileURL(join(packageOfPi(), "dist/core/session-manager.js")).href
);
const played = sequences.map((calls) => play(SessionManager, calls, folder));
const read = files.map((file) => tell(SessionManager.open(file)));
writeFileSync(output!, JSON.stringify({ played, read }));
