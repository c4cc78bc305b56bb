// Runs in the consumer's project: each example in a separate process, with a local server in place of Claude.
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync } from "node:fs";
import { resolve } from "node:path";
import { startMessagesServer, textReply } from "espalier/testing";

const server = await startMessagesServer({ reply: textReply("They say when to water.") });
const env = { ...process.env, ANTHROPIC_BASE_URL: server.url, ANTHROPIC_API_KEY: "key-of-nobody" };
const faults = [];
for (const name of readdirSync("examples")) {
  const child = spawn(process.execPath, [resolve("examples", name)], {
    cwd: mkdtempSync("example-"),
    env,
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  child.stderr.on("data", (chunk) => (said += chunk));
  const code = await new Promise((done) => child.on("close", done));
  if (code !== 0) faults.push(`${name} ended with ${code}: ${said.trim().slice(-600)}`);
}
await server.close();
if (faults.length > 0) {
  console.error(`Error: an example does not run once installed: ${faults.join("; ").replaceAll("\n", " ")}`);
  process.exit(1);
}
