// Examples that keep the sessions of another SDK, against loopback servers.
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { openSession } from "espalier";
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

test("32-openai-agents runs a tool, and goes on with its history from the session", async () => {
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
