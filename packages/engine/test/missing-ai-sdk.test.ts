import { createSession } from "@espalier/engine";
import { receiveUiMessages, saveUiMessages } from "@espalier/engine/ui-messages";
import { memoryStore } from "@espalier/session-tree";
import type { UIMessage } from "ai";
import { expect, test, vi } from "vitest";

vi.mock("ai", () => {
  throw new Error("Cannot find package 'ai'");
});

test("without the package ai, saving and receiving the messages of a page name its installation", async () => {
  const session = await createSession({ cwd: "/garden", store: memoryStore() });
  const sent: UIMessage[] = [{ id: "q1", role: "user", parts: [{ type: "text", text: "Pears?" }] }];
  const missing = { code: "bad-input", message: "The AI SDK needs the package ai: npm install ai" };
  await expect(receiveUiMessages(session, sent)).rejects.toMatchObject(missing);
  await expect(saveUiMessages(session, sent)).rejects.toMatchObject(missing);
  expect(session.getBranch()).toEqual([]);
});
