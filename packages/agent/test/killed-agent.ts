/**
 * A process that opens a session, says something with the reference agent, and kills itself at its n-th event:
 * `killed-agent <file> <home> <url> <n> <prompt>`. It prints the types of its events, one a line, as they happen.
 */
import { appendFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import { createAgent } from "@espalier/agent";
import { openSession } from "@espalier/engine";
import { anthropic } from "@espalier/engine/anthropic";

const [file = "", home = "", url = "", n = "", prompt = ""] = process.argv.slice(2);
const session = await openSession({ file }, { home, compaction: { keepRecentTokens: 300 } });
const agent = createAgent({
  session,
  model: anthropic(new Anthropic({ apiKey: "key", baseURL: url, maxRetries: 0 }), {
    model: "claude-haiku-4-5",
    contextWindow: 30_000,
  }),
  system: "You tend a garden.",
  tools: [
    {
      name: "water",
      run: async ({ what }) => {
        appendFileSync(join(home, "watered.txt"), `${String(what)}\n`);
        return `Watered ${String(what)}.`;
      },
    },
  ],
  overflowRetryDelayMs: 1,
});
let events = 0;
let isQueued = false;
agent.on(({ type }) => {
  writeSync(1, `${type}\n`);
  if (type === "tool_start" && !isQueued) {
    isQueued = true;
    void agent.run(`${prompt} And then?`);
  }
  if (++events === Number(n)) process.kill(process.pid, "SIGKILL");
});
await agent.run(prompt);
await session.close();
