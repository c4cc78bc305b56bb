import { readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { inspect } from "node:util";
import { errorReply, textReply, toolReply } from "@espalier/summarizer/testing";
import { expect, test } from "vitest";
import { server, stage, textsOf, workingFolder } from "./stage.ts";

test("no message, result or key is ever logged, even after errors, and no other user can read a file", async () => {
  const { url } = await server({
    apiKey: "key-of-the-test",
    reply: ({ body }) => {
      const asked = JSON.stringify(body["messages"]);
      if (!JSON.stringify(body["system"] ?? "").includes("You tend") || asked.includes("asks for a summary"))
        return errorReply(400, "this summary cannot be");
      if (asked.includes("Fail now.")) return errorReply(400, "nobody knows");
      const isRead = asked.includes("tool_result");
      return isRead
        ? textReply("It is ripe.")
        : toolReply([{ name: "read_file", input: { path: "long.txt" } }]);
    },
  });
  const logged: unknown[] = [];
  const note = (...values: unknown[]) => void logged.push(...values);
  const cwd = workingFolder();
  const previous = process.umask(0);
  writeFileSync(join(cwd, "long.txt"), "the quince is under the stairs\n".repeat(400));
  const settings = { offloadThreshold: 1_000, triggerTokens: 1_000_000, preserveCount: 1, retryCount: 2 };
  const open = {
    log: { warn: note, error: note },
    policy: "offload" as const,
    policySettings: settings,
    sleep: async () => {},
    fallback: false,
    home: join(cwd, "home"),
  };
  const { agent, session, events } = await stage({ url, cwd, open });
  await agent.run("The word is: swordfish.");
  await agent.run(`Say it again. ${"swordfish ".repeat(300)}`);
  expect(await agent.forceCompact()).toMatchObject({ success: false });
  await agent.run("Fail now.");
  process.umask(previous);

  expect(events.map(({ type }) => type)).toContain("offload_done");
  expect(textsOf(session.file, "toolResult").join()).toContain("quince");
  const texts = inspect(logged, { depth: 12, maxStringLength: null, showHidden: true });
  expect(texts).toContain("Compact summary attempt 1 failed");
  expect(texts).not.toMatch(/swordfish|quince|key-of-the-test|It is ripe/);
  const modes = readdirSync(join(cwd, "home"), { recursive: true, withFileTypes: true }).map((entry) => {
    const mode = statSync(join(entry.parentPath ?? entry.path, entry.name)).mode & 0o777;
    return [entry.isDirectory() ? "folder" : "file", mode.toString(8)].join(" ");
  });
  expect(modes.length).toBeGreaterThan(3);
  expect(new Set(modes)).toEqual(new Set(["folder 700", "file 600"]));
});
