import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createSession, openSession, type Session } from "@espalier/engine";
import { archivedRows, isArchived, rowsHidden } from "@espalier/engine/reading";
import {
  anthropicFormat,
  buildRequest,
  type ContextMessage,
  contextEdit,
  custom,
  customMessage,
  messageText,
  NO_RESULT,
  openaiChatFormat,
} from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { plant, turn, words } from "./build-session.ts";

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

const requestOf = (session: Session, at = session.leafId): string =>
  JSON.stringify(buildRequest(session.contextAt(at), { format: anthropicFormat }));

const idOf = (session: Session, text: string): string =>
  session.getBranch().find((entry) => JSON.stringify(entry).includes(text))!.id;

test("images of 20 MB that no provider accepts are hidden by one call each, and the session works again", async () => {
  const home = mkdtempSync(join(tmpdir(), "espalier-hide-"));
  folders.push(home);
  const store = fileStore({ home });
  const session = await createSession({ store, compaction: { keepRecentTokens: 50 } });
  const data = Buffer.alloc(10_000_000, "oversized").toString("base64");
  const image = { type: "image" as const, data, mimeType: "image/png" };
  const [, picture, another] = await session.appendMessages([
    { role: "user", content: `What grows here? ${words(900)}` },
    { role: "user", content: [image] },
    { role: "user", content: [image, { type: "text", text: "And here?" }] },
    { role: "assistant", content: `I cannot see it. ${words(900)}` },
  ]);
  expect(requestOf(session).length).toBeGreaterThan(20_000_000);
  const { tokens } = session.context;
  const before = readFileSync(session.file);

  await session.hide(picture!.id);
  const entryId = await session.hide(another!.id);
  expect(session.leafId).toBe(entryId);
  expect(requestOf(session).length).toBeLessThan(10_000);
  expect(session.context.tokens).toBe(tokens - 2_400 - 3);
  const after = readFileSync(session.file);
  expect(after.subarray(0, before.length).equals(before)).toBe(true);
  expect(after.length - before.length).toBeLessThan(600);

  // Above the edit it is what it was, and hidden it stays: in a fork, after a restart, behind a compaction.
  expect(session.contextAt(picture!.id).messages.at(-1)).toMatchObject({ content: [{ data }] });
  await session.appendMessages(turn("later"));
  const fork = await session.fork(session.leafId!);
  const context = session.context.messages;
  await session.close();
  for (const ref of [session.file, fork.file]) {
    const again = await openSession({ file: ref }, { store, compaction: { keepRecentTokens: 50 } });
    expect(again.context.messages).toEqual(context);
    expect(await again.compact()).toMatchObject({ eligible: true });
    expect(requestOf(again)).not.toContain("image");
    await again.navigate(picture!.id);
    expect(again.context.messages.at(-1)).toMatchObject({ role: "user" });
    await again.close();
  }
});

test("an image on a longer line than Espalier writes is hidden too, and undo shows it", async () => {
  const folder = mkdtempSync(join(tmpdir(), "espalier-hide-"));
  folders.push(folder);
  const file = join(folder, "foreign.jsonl");
  const timestamp = "2026-01-01T00:00:00.000Z";
  const data = Buffer.alloc(20_000_000, "oversized").toString("base64");
  const said = (id: string, parentId: string | null, content: unknown) => ({
    ...{ type: "message", id, parentId, timestamp },
    message: { role: "user", content, timestamp: 1 },
  });
  const lines = [
    { type: "session", version: 3, id: "foreign", timestamp, cwd: folder },
    said("question", null, "What grows here?"),
    said("picture", "question", [{ type: "image", data, mimeType: "image/png" }]),
  ];
  writeFileSync(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(""), { mode: 0o600 });
  const session = await openSession({ file });
  await session.hide("picture");
  expect(requestOf(session).length).toBeLessThan(1_000);
  await expect(session.hide("picture", false)).rejects.toMatchObject({ code: "invalid-entry" });
  expect(await session.undo()).toMatchObject({ leafId: "picture" });
  expect(session.context.messages.at(-1)).toMatchObject({ content: [{ data }] });
  await session.close();
});

describe("showing a hidden entry", () => {
  test("restores its whole content, for every kind of entry", async () => {
    const { session } = await plant({ turns: 6 });
    await session.compact();
    await session.appendMessages([
      { role: "bashExecution", command: "ls", output: "seeds", exitCode: 0 },
      {
        role: "user",
        content: [
          { type: "text", text: "two" },
          { type: "text", text: "blocks" },
        ],
      },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "Hm.", thinkingSignature: "s" },
          { type: "toolCall", id: "c1", name: "read", arguments: { path: "a" } },
        ],
      },
      {
        role: "toolResult",
        toolCallId: "c1",
        content: [{ type: "image", data: "AAAA", mimeType: "image/png" }],
      },
    ]);
    await session.append(customMessage.of({ customType: "weather", content: "It rains.", display: true }));
    const { messages, sources, tokens } = structuredClone(session.context);
    expect(new Set(messages.map(({ role }) => role))).toEqual(
      new Set(["compactionSummary", "bashExecution", "user", "assistant", "toolResult", "custom"]),
    );
    for (const id of sources) {
      await session.hide(id);
      expect(session.context.sources).not.toContain(id);
      await session.hide(id, false);
    }
    expect(session.context).toMatchObject({ messages, sources, tokens });
  });

  test("restores the shortened form of an entry that was shortened before", async () => {
    const { session } = await plant({ turns: 1 });
    const id = idOf(session, "Result 1-1");
    await session.append(contextEdit.of({ targetId: id, replacement: { content: "Result, in short." } }));
    await session.hide(id);
    await session.hide(id, false);
    const said = session.context.messages[session.context.sources.indexOf(id)]!;
    expect(messageText(said)).toBe("Result, in short.");
  });

  test("is refused for a hidden compaction that a newer one keeps: it would stay out of the context", async () => {
    const { session } = await plant();
    const kept = session.getBranch().at(-4)!.id;
    const hidden = await session.appendCompaction("first", kept, 1);
    await session.hide(hidden);
    await session.appendCompaction("second", kept, 1);
    const length = session.getEntries().length;
    await expect(session.hide(hidden, false)).rejects.toMatchObject({ code: "not-in-context" });
    expect(session.getEntries()).toHaveLength(length);
  });

  test("writes no entry if nothing changes", async () => {
    const { session } = await plant({ turns: 1 });
    const id = idOf(session, "Answer 1");
    expect(await session.hide(id, false)).toBeNull();
    expect(await session.hide(id)).toEqual(session.leafId);
    const length = session.getEntries().length;
    expect(await session.hide(id)).toBeNull();
    expect(session.getEntries()).toHaveLength(length);
  });
});

test("an entry outside of the context cannot be hidden, and the error names the cure", async () => {
  const { session } = await plant();
  const [covered, answer] = [idOf(session, "Question 1"), idOf(session, "Answer 4")];
  await session.label(answer, "here");
  const label = session.getEntries().at(-1)!.id;
  await session.compact();
  const compacted = session.leafId!;
  const [state] = await session.append(custom.of({ customType: "state", data: 1 }));
  const refuses = async (id: string, code: string, sentence: string) => {
    const length = session.getEntries().length;
    const error = await session.hide(id).catch((reason: Error) => reason);
    expect(error).toMatchObject({ code, message: expect.stringContaining(sentence) });
    expect(session.getEntries()).toHaveLength(length);
  };
  await refuses("nobody", "unknown-entry", "nobody");
  await refuses(label, "not-in-context", "(label) has no content for the model");
  await refuses(
    state!.id,
    "not-in-context",
    "(custom) has no content for the model: name an entry that the context lists",
  );
  const cure = `the compaction ${compacted} has replaced ${covered}: hide the compaction, or navigate to before it`;
  await refuses(covered, "not-in-context", cure);
  // As it says: before the compaction it can be hidden, and there it says so.
  await session.navigate(answer);
  expect(await session.hide(covered)).toBe(session.leafId);
  await session.navigate(covered);
  await session.appendMessages(turn("elsewhere"));
  await refuses(answer, "not-in-context", "on another branch: navigate");
});

test("a hidden entry does not count as covered by a summary", async () => {
  const { session } = await plant();
  await session.compact();
  const archived = archivedRows(session);
  const id = session.context.sources[1]!;
  expect(rowsHidden(session)).toEqual(new Set());
  await session.hide(id);
  expect(rowsHidden(session)).toEqual(new Set([session.tree.row(id)]));
  expect(isArchived(session, id)).toBe(false);
  expect(archivedRows(session).count).toBe(archived.count);
});

describe("requests with hidden entries", () => {
  test("a hidden call hides its result, and a hidden result leaves a call with an answer", async () => {
    const { session } = await plant({ turns: 2 });
    const [call, result] = [idOf(session, '"call-1-1","name"'), idOf(session, "Result 2-1")];
    await session.hide(call);
    expect(requestOf(session)).not.toContain("Result 1-1");
    expect(requestOf(session)).not.toContain("call-1-1");
    await session.hide(result);
    expect(requestOf(session)).toContain(NO_RESULT);
    expect(requestOf(session)).not.toContain("Result 2-1");
    await session.hide(call, false);
    await session.hide(result, false);
    expect(requestOf(session)).toContain("Result 1-1");
    expect(requestOf(session)).not.toContain(NO_RESULT);
  });

  test("have exactly one result for each call and begin with a user message", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(11), { maxLength: 8 }), async (picks) => {
        const { session } = await plant({ turns: 3 });
        const said = [...session.context.sources];
        for (const pick of picks) {
          const id = said[pick % said.length]!;
          await session.hide(id, session.context.sources.includes(id));
        }
        const { messages } = buildRequest(session.context, { format: openaiChatFormat }) as {
          messages: { role: string; tool_calls?: { id: string }[]; tool_call_id?: string }[];
        };
        if (messages.length > 0) expect(messages[0]!.role).toBe("user");
        const open = new Set<string>();
        for (const { role, tool_calls: calls = [], tool_call_id: answered } of messages) {
          if (role === "tool") expect(open.delete(answered!)).toBe(true);
          else expect(open.size).toBe(0);
          for (const { id } of calls) open.add(id);
        }
        expect(open.size).toBe(0);
      }),
      { numRuns: 40 },
    );
  });
});

describe("undo of hiding", () => {
  const texts = (messages: readonly ContextMessage[]) => messages.map(messageText).join("\n");

  test("hiding and showing are acts of the user: undo reverses them in order", async () => {
    const { session } = await plant({ turns: 1 });
    const id = idOf(session, "Answer 1");
    const leafId = session.leafId;
    await session.hide(id);
    const hidden = session.leafId;
    await session.hide(id, false);
    expect(await session.undo()).toMatchObject({ leafId: hidden, editorText: null });
    expect(texts(session.context.messages)).not.toContain("Answer 1");
    expect(await session.undo()).toMatchObject({ leafId });
    expect(texts(session.context.messages)).toContain("Answer 1");
    expect((await session.undo()).editorText).toMatch(/^Question 1/);
  });

  test("an edit that a program made is not an act of the user", async () => {
    const { session } = await plant({ turns: 1 });
    const id = idOf(session, "Answer 1");
    await session.append(contextEdit.of({ targetId: id, replacement: null }));
    expect((await session.undo()).editorText).toMatch(/^Question 1/);
  });
});
