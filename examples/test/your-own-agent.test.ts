import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ReplyBlock, startMessagesServer, textReply } from "espalier/testing";
import { afterAll, expect, test } from "vitest";

const home = mkdtempSync(join(tmpdir(), "espalier-example-"));
const thoughts: ReplyBlock[] = [
  { type: "thinking", thinking: "Hm.", signature: "c2lnbmVk" },
  { type: "redacted_thinking", data: "b3BhcXVl" },
];
const server = await startMessagesServer({
  reply: (_, n) =>
    n % 2 === 1
      ? {
          kind: "message",
          content: [...thoughts, { type: "tool_use", id: `c${n}`, name: "look", input: {} }],
        }
      : textReply("Pears."),
});
process.env["ESPALIER_HOME"] = home;
process.env["ANTHROPIC_API_KEY"] = "test";
process.env["ANTHROPIC_BASE_URL"] = server.url;
afterAll(async () => {
  await server.close();
  rmSync(home, { recursive: true, force: true });
});

const root = join(import.meta.dirname, "../..");
const example = readFileSync(join(root, "examples/10-your-own-agent.ts"), "utf8");

test("an agent of forty lines talks, uses tools, and keeps everything in the session", async () => {
  const { ask, session } = await import("../10-your-own-agent.ts");
  expect(await ask("What grows here?")).toBe("Pears.");
  expect(await ask("And now?")).toBe("Pears.");
  expect(server.requests.flatMap(({ problems }) => problems)).toEqual([]);
  expect(server.requests).toHaveLength(4);
  const turn = ["user", "assistant", "toolResult", "assistant"];
  expect(session.context.messages.map(({ role }) => role)).toEqual([...turn, ...turn]);
  const sent = JSON.stringify(server.requests.at(-1)!.body);
  expect(sent).toContain("c2lnbmVk");
  expect(sent).toContain("b3BhcXVl");
});

test("what a model thought is not sent to another one", async () => {
  const { ask, session } = await import("../10-your-own-agent.ts");
  const before = server.requests.length;
  expect(await ask("And what else?", "claude-sonnet-4-5")).toBe("Pears.");
  const [first, second] = server.requests.slice(before);
  expect(first!.body["model"]).toBe("claude-sonnet-4-5");
  expect(JSON.stringify(first!.body)).not.toContain("thinking");
  expect(JSON.stringify(second!.body)).toContain("thinking");
  expect(server.requests.flatMap(({ problems }) => problems)).toEqual([]);
  await session.close();
});

test("the guide shows the example as it is, in forty lines at the most", () => {
  const guide = readFileSync(join(root, "docs/guides/put-it-under-your-agent.md"), "utf8");
  expect(/```ts\n([\s\S]*?)```/.exec(guide)?.[1]).toBe(example);
  expect(example.trimEnd().split("\n").length).toBeLessThanOrEqual(40);
});
