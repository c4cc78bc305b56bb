import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startMessagesServer, textReply, toolReply } from "@espalier/summarizer/testing";
import { afterAll, expect, test } from "vitest";

const home = mkdtempSync(join(tmpdir(), "espalier-example-"));
const server = await startMessagesServer({
  reply: (_, n) => (n % 2 === 1 ? toolReply([{ name: "look", input: {} }]) : textReply("Pears.")),
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
  await session.close();
});

test("the guide shows the example as it is, in forty lines at the most", () => {
  const guide = readFileSync(join(root, "docs/guides/put-it-under-your-agent.md"), "utf8");
  expect(/```ts\n([\s\S]*?)```/.exec(guide)?.[1]).toBe(example);
  expect(example.trimEnd().split("\n").length).toBeLessThanOrEqual(40);
});
