import { createSession, openSession } from "@espalier/engine";
import { anthropicFormat, buildRequest, contextEdit, memoryStore } from "@espalier/session-tree";
import { expect, test } from "vitest";

test("one append removes a too large part from the context, and nothing from the log", async () => {
  const store = memoryStore();
  const session = await createSession({ store });
  const data = Buffer.alloc(3_000_000, "picture").toString("base64");
  const [, picture] = await session.appendMessages([
    { role: "user", content: "What is on this picture?" },
    { role: "user", content: [{ type: "image", data, mimeType: "image/png" }] },
  ]);
  const requestOf = () => JSON.stringify(buildRequest(session.context, { format: anthropicFormat }));
  expect(requestOf().length).toBeGreaterThan(4_000_000);
  const view = await session.log.load();
  const before = view.read(0, view.size);
  const full = session.context.tokens;

  await session.append(contextEdit.of({ targetId: picture!.id, replacement: null }));
  expect(requestOf()).not.toContain(data);
  expect(session.context.tokens).toBeLessThan(full);
  await session.appendMessages([{ role: "assistant", content: "I see none." }]);
  const after = await session.log.load();
  expect(Buffer.from(after.read(0, view.size)).equals(Buffer.from(before))).toBe(true);

  const fork = await session.fork(session.leafId!);
  const context = session.context.messages;
  await session.close();
  for (const ref of [session.file, fork.file]) {
    const again = await openSession({ file: ref }, { store, mode: "read" });
    expect(again.context.messages).toEqual(context);
    expect(again.contextAt(picture!.id).tokens).toBe(full);
    await again.close();
  }
});
