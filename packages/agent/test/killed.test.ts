import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { createAgent } from "@espalier/agent";
import { scriptedModel } from "@espalier/agent/testing";
import { createSession, openSession } from "@espalier/engine";
import { anthropicFormat, buildRequest } from "@espalier/session-tree";
import { checkAnthropicRequest } from "@espalier/session-tree/testing";
import { textReply } from "@espalier/summarizer/testing";
import { buildSync } from "esbuild";
import { expect, test } from "vitest";
import { entriesOf, quiet, SUMMARY, server, textsOf, workingFolder } from "./stage.ts";

const program = join(workingFolder(), "killed-agent.mjs");
buildSync({
  entryPoints: [fileURLToPath(new URL("killed-agent.ts", import.meta.url))],
  bundle: true,
  platform: "node",
  format: "esm",
  outfile: program,
  minify: true,
  banner: { js: "import{createRequire as r}from'node:module';const require=r(import.meta.url);" },
});

const PROMPT = "Water the pears and the plums.";

/** A server whose model waters twice, finds the context too long once, and then answers everything. */
async function gardener() {
  let isRefused = false;
  return server({
    reply: ({ body }) => {
      const asked = JSON.stringify(body["messages"]);
      if (
        !JSON.stringify(body["system"] ?? "").includes("tend a garden") ||
        asked.includes("asks for a summary")
      )
        return textReply(SUMMARY);
      if (!asked.includes("toolu_")) {
        const water = (what: string) => ({
          type: "tool_use" as const,
          id: `toolu_${what}`,
          name: "water",
          input: { what },
        });
        return { kind: "message", content: [water("pears"), water("plums")] };
      }
      if (!isRefused) {
        isRefused = true;
        return { kind: "error", status: 400, type: "invalid_request_error", message: "prompt is too long" };
      }
      return textReply("All is watered.");
    },
  });
}

/** A session with a past that can be compacted. */
async function past(home: string): Promise<string> {
  const session = await createSession({ cwd: home, home, log: quiet });
  await session.appendMessages([
    { role: "user", content: `Remember: ${"the pears are thirsty. ".repeat(400)}` },
    { role: "assistant", content: [{ type: "text", text: "I remember. ".repeat(600) }] },
  ] as never);
  await session.close();
  return session.file;
}

/** Runs the agent until its n-th event; returns the types of its events. */
async function killedAt(n: number, home: string, file: string, url: string): Promise<string[]> {
  const child = spawn(process.execPath, [program, file, home, url, `${n}`, PROMPT], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [said] = await Promise.all([text(child.stdout), once(child, "close")]);
  return said.trimEnd().split("\n");
}

const watered = (home: string) =>
  existsSync(join(home, "watered.txt"))
    ? readFileSync(join(home, "watered.txt"), "utf8").trimEnd().split("\n")
    : [];

async function killAndGoOn(n: number): Promise<string> {
  const home = workingFolder();
  const { url, requests } = await gardener();
  const file = await past(home);
  const events = await killedAt(n, home, file, url);
  const before = entriesOf(file).map(({ id }) => id);
  const ran = watered(home);

  const session = await openSession({ file }, { home, log: quiet, compaction: { keepRecentTokens: 300 } });
  const said = () => textsOf(file, "user").slice(1);
  const model = scriptedModel(() => ({ text: "Well." }));
  const agent = createAgent({
    session,
    model,
    tools: [{ name: "water", run: async () => "Watered again." }],
  });
  const wasSaid = said().length > 0;
  if (wasSaid) await agent.continue();
  const request = {
    model: "m",
    max_tokens: 1,
    ...buildRequest(session.context, { format: anthropicFormat }),
  };
  await session.close();

  const what = `${n}: ${events.join(" ")}`;
  // Nothing lost: what was in the log is there, in its order; what was said and queued was delivered.
  const after = entriesOf(file).map(({ id }) => id);
  expect(after.slice(0, before.length), what).toEqual(before);
  if (wasSaid) expect(said()[0], what).toBe(PROMPT);
  if (events.includes("queued")) expect(said(), what).toEqual([PROMPT, `${PROMPT} And then?`]);
  // Nothing twice: no prompt, no call, no result, no id.
  expect(new Set(after).size, what).toBe(after.length);
  expect(new Set(said()).size, what).toBe(said().length);
  expect(watered(home), what).toEqual(ran);
  expect(new Set(ran).size, what).toBe(ran.length);
  const results = entriesOf(file).flatMap(
    (entry) => (entry as { message?: { toolCallId?: string } }).message?.toolCallId ?? [],
  );
  expect(new Set(results).size, what).toBe(results.length);
  if (events.includes("answer") && events.length > 4) expect(results.length, what).toBe(2);
  expect(checkAnthropicRequest(request), what).toEqual([]);
  expect(
    requests.flatMap(({ problems }) => problems),
    what,
  ).toEqual([]);
  return events.at(-1)!;
}

const TYPES = [
  "agent_start",
  "entry",
  "request",
  "text",
  "answer",
  "tool_start",
  "tool_end",
  "queued",
  "compact_start",
  "compact_done",
  "messages_replaced",
  "retry",
  "agent_end",
];

test("a process killed at each of its events leaves a session that continues, with nothing lost or repeated", async () => {
  const { url } = await gardener();
  const home = workingFolder();
  const all = await killedAt(0, home, await past(home), url);
  expect(new Set(all)).toEqual(new Set(TYPES));
  const ends: string[] = [];
  const moments = all.map((_, at) => at + 1);
  const killing = async () => {
    for (let n = moments.pop(); n !== undefined; n = moments.pop()) ends.push(await killAndGoOn(n));
  };
  await Promise.all([killing(), killing(), killing(), killing()]);
  expect(new Set(ends)).toEqual(new Set(all));
}, 300_000);
