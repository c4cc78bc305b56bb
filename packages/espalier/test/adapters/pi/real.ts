// Plays sequences on the real Pi, and reads files with it: started by npx, which puts Pi on the path.
import { existsSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
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

/** The package whose command `pi` is on the path. */
function packageOfPi(): string {
  const commands = (process.env["PATH"] ?? "").split(delimiter).map((each) => join(each, "pi"));
  const command = commands.find((each) => existsSync(each));
  if (command === undefined) throw new Error("There is no command pi on the path.");
  let at = dirname(realpathSync(command));
  while (!existsSync(join(at, "package.json"))) at = dirname(at);
  return at;
}
