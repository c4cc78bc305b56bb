import { expect, test } from "vitest";
import { DEMO, espalier, espalierJson, HEADER, said, sessionOf } from "./espalier.ts";

test("show --json prints the line as it is on disk, byte for byte", async () => {
  const line =
    '{"customType":"a  b", "type":"custom","id":"c1","parentId":null,"timestamp":"t","data":{"n":1.0e2,"s":"\\u00e9"}}';
  const file = sessionOf(HEADER, line);
  expect((await espalier(["show", file, "c1", "--json"])).stdout).toBe(`${line}\n`);
});

test("show describes an entry for people: kind, parent and whole content", async () => {
  const { stdout } = await espalier(["show", DEMO, "before-cache"]);
  const lines = stdout.split("\n");
  expect(lines[0]).toBe("message · assistant · vPdDiWYGH0ya");
  expect(lines[1]).toMatch(
    /^\[before-cache\] · 2026-03-07 .* · under O566c3bkrvqI · on the path of the leaf$/,
  );
  expect(stdout).toContain("**What people ask for.** Issue #41 wants about two months");
});

test("an entry whose line was damaged keeps its position and is reported", async () => {
  const damaged =
    '{"type":"message","id":"e1","parentId":null,"timestamp":"t","message":{"role":"user","content":nothing}}';
  const file = sessionOf(HEADER, damaged, said("e2", "e1", "whole"));
  const { code, value } = await espalierJson(["show", file, "e1"]);
  expect(code).toBe(1);
  expect(value.error.code).toBe("damaged");
  const tree = await espalierJson(["tree", file]);
  expect(tree.value.entries.map(({ id }: { id: string }) => id)).toEqual(["e1", "e2"]);
  expect(tree.stderr).toBe(`1 line is damaged; \`espalier doctor ${file}\` shows the details.\n`);
});

const REMINDER = "<system-reminder>\nBe brief.\n</system-reminder>";
const hidden = (id: string, parentId: string) => ({
  ...{ type: "custom_message", id, parentId, timestamp: "2026-01-01T00:00:01.000Z" },
  ...{ customType: "claude-code.date", content: REMINDER, display: false },
});

test("show keeps spaces and tabs, also at the ends of lines, in texts, calls and commands", async () => {
  const text = "  two  blanks\n\ta tab and an end  \n      deep";
  const call = { type: "toolCall", id: "c1", name: "write", arguments: { text: "a   b" } };
  const message = (role: string, fields: object) => ({
    ...said("x", null, ""),
    message: { role, timestamp: 1, ...fields },
  });
  const file = sessionOf(
    HEADER,
    said("user", null, text),
    { ...message("assistant", { content: [call], stopReason: "toolUse" }), id: "call", parentId: "user" },
    {
      ...message("bashExecution", { command: "cat <<X\n  a\nX", output: "  a" }),
      id: "bash",
      parentId: "call",
    },
  );
  const shown = async (id: string) =>
    (await espalier(["show", file, id])).stdout.split("\n\n").slice(1).join("\n\n");
  expect(await shown("user")).toBe(`${text}\n`);
  expect(await shown("call")).toBe('→ write {"text":"a   b"}\n');
  expect(await shown("bash")).toBe("$ cat <<X\n  a\nX\n  a\n");
});

test("show without an id prints the last message, and folds an agent's reminders inside it", async () => {
  const file = sessionOf(HEADER, said("u1", null, `Which way?\n${REMINDER}\nUp?`), hidden("r1", "u1"));
  const { stdout } = await espalier(["show", file]);
  expect(stdout).toMatch(/^message · user · u1\n/);
  expect(stdout).toMatch(/\nWhich way\?\n\(a reminder of the agent, 3 lines; --all shows it\)\nUp\?\n$/);
  expect((await espalier(["show", file, "--all"])).stdout).toContain(`Which way?\n${REMINDER}\nUp?`);
  // Asked for by its id, bookkeeping is shown.
  expect((await espalier(["show", file, "r1"])).stdout).toContain("Be brief.");
  const empty = await espalierJson(["show", sessionOf(HEADER)]);
  expect(empty).toMatchObject({ code: 1, value: { error: { code: "not-found" } } });
});

test("context counts messages of bookkeeping at their places, and --all shows them", async () => {
  const file = sessionOf(
    HEADER,
    said("u1", null, "Up?"),
    hidden("r1", "u1"),
    hidden("r2", "r1"),
    said("u2", "r2", "Down?"),
  );
  const { stdout } = await espalier(["context", file]);
  expect(stdout).toMatch(/^What the model reads at u2: 4 messages, /);
  expect(stdout).toMatch(
    /\n {2}Up\?\n\n… 2 messages of bookkeeping, \d+ tokens; --all shows them\n\nuser u2 /,
  );
  expect((await espalier(["context", file, "--all"])).stdout).toContain("Be brief.");
  expect((await espalierJson(["context", file])).value.messages).toHaveLength(4);
});
