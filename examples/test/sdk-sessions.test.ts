// Examples that keep the sessions of another SDK, against loopback servers.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { listSessions, openSession } from "espalier";
import { message, messageText } from "espalier/extend";
import { afterAll, expect, test } from "vitest";

const home = mkdtempSync(join(tmpdir(), "espalier-sdk-"));
const asked: string[] = [];
/** The Responses API, as far as the SDK needs it: calls the tool at each first request, and answers at each second. */
const gpt = createServer(async (request, response) => {
  const { model, input } = (await json(request)) as { model: string; input: unknown };
  const n = asked.push(JSON.stringify(input));
  const call = {
    type: "function_call",
    id: `fc_${n}`,
    call_id: `c${n}`,
    name: "look",
    arguments: '{"bed":"north"}',
  };
  const text = { type: "output_text", text: `Pears, ${n}.`, annotations: [] };
  const output =
    n % 2 === 1
      ? [
          { type: "reasoning", id: `rs_${n}`, summary: [{ type: "summary_text", text: "I look." }] },
          { ...call, status: "completed" },
        ]
      : [{ type: "message", id: `msg_${n}`, role: "assistant", status: "completed", content: [text] }];
  const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
  response.setHeader("content-type", "application/json");
  response.end(
    JSON.stringify({ id: `resp_${n}`, object: "response", model, status: "completed", output, usage }),
  );
});
await new Promise<void>((resolve) => gpt.listen(0, "127.0.0.1", resolve));
process.env["ESPALIER_HOME"] = home;
process.env["OPENAI_API_KEY"] = "test";
process.env["OPENAI_BASE_URL"] = `http://127.0.0.1:${(gpt.address() as AddressInfo).port}/v1`;
process.env["OPENAI_AGENTS_DISABLE_TRACING"] = "1";
afterAll(async () => {
  gpt.closeAllConnections();
  await new Promise((resolve) => gpt.close(resolve));
  rmSync(home, { recursive: true, force: true });
});

test("32-openai-agents runs a tool, and continues with its history from the session", async () => {
  const { ask } = await import("../32-openai-agents.ts");
  expect(await ask("garden", "What grows here?")).toBe("Pears, 2.");
  expect(await ask("garden", "And in the north?")).toBe("Pears, 4.");
  expect(asked).toHaveLength(4);
  for (const words of ["What grows here?", "Ripe pears in north.", "Pears, 2.", "And in the north?"])
    expect(asked[2]).toContain(words);

  const session = await openSession("garden", { home });
  const said = session.getBranch().flatMap((entry) => (message.is(entry) ? [entry.message] : []));
  expect(said.map(({ role }) => role)).toEqual([
    ...["user", "assistant", "assistant", "toolResult", "assistant"],
    ...["user", "assistant", "assistant", "toolResult", "assistant"],
  ]);
  expect(messageText(said[3]!)).toBe("Ripe pears in north.");
  await session.close();
});

/**
 * Claude Code, as far as the SDK knows it: it writes a transcript, mirrors each line to the SDK, and answers with the number of
 * lines that it found. The real one is a program of 380 MB that needs an account.
 */
const CLAUDE_CODE = `
import { appendFileSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
const resumed = process.argv.find((word) => word.startsWith("--resume="))?.slice(9);
const sessionId = resumed ?? "3f1c0a52-6f0e-4a55-9c5e-0d3a8f6b7c11";
const folder = process.cwd().replace(/[^a-zA-Z0-9]/g, "-");
const filePath = join(process.env.CLAUDE_CONFIG_DIR, "projects", folder, sessionId + ".jsonl");
mkdirSync(dirname(filePath), { recursive: true });
const found = existsSync(filePath) ? readFileSync(filePath, "utf8").trim().split("\\n").map((line) => JSON.parse(line)) : [];
const send = (message) => process.stdout.write(JSON.stringify(message) + "\\n");
let parentUuid = found.findLast(({ uuid }) => uuid)?.uuid ?? null;
function write(type, message) {
  const uuid = crypto.randomUUID();
  const line = { type, uuid, parentUuid, sessionId, cwd: process.cwd(), timestamp: new Date().toISOString(), message };
  parentUuid = uuid;
  appendFileSync(filePath, JSON.stringify(line) + "\\n");
  send({ type: "transcript_mirror", filePath, entries: [line] });
}
for await (const text of createInterface({ input: process.stdin })) {
  const { type, request_id, message } = JSON.parse(text);
  if (type === "control_request") send({ type: "control_response", response: { subtype: "success", request_id, response: { commands: [], models: [], account: {} } } });
  if (type !== "user") continue;
  const answer = "I know " + found.length + " lines.";
  write("user", { role: "user", content: message.content });
  write("assistant", { id: "m" + found.length, role: "assistant", model: "claude-haiku-4-5", content: [{ type: "text", text: answer }] });
  send({ type: "result", subtype: "success", is_error: false, result: answer, session_id: sessionId, uuid: crypto.randomUUID(), num_turns: 1, duration_ms: 1, duration_api_ms: 1, total_cost_usd: 0, usage: {}, modelUsage: {}, permission_denials: [] });
  process.exit(0);
}
`;

test("31-claude-agent-sdk resumes on a machine that has only the store", async () => {
  const { ask } = await import("../31-claude-agent-sdk.ts");
  const program = join(home, "claude-code.mjs");
  writeFileSync(program, CLAUDE_CODE);
  const cwd = join(home, "garden");
  mkdirSync(cwd);
  const machine = (name: string) => ({
    cwd,
    pathToClaudeCodeExecutable: program,
    env: { ...process.env, CLAUDE_CONFIG_DIR: join(home, name) },
  });
  const first = await ask("What grows here?", machine("first"));
  expect(first.text).toBe("I know 0 lines.");
  const second = await ask("And in the north?", { ...machine("second"), resume: first.id });
  expect(second).toEqual({ id: first.id, text: "I know 2 lines." });

  const listed = [];
  for await (const listing of listSessions({ home }))
    if (listing.id.startsWith(first.id)) listed.push(listing);
  expect(listed).toMatchObject([{ firstMessage: "What grows here?", cwd }]);
  const session = await openSession(listed[0]!.id, { home });
  expect(session.context.messages.map((one) => messageText(one))).toEqual([
    ...["What grows here?", "I know 0 lines."],
    ...["And in the north?", "I know 2 lines."],
  ]);
  await session.close();
});
