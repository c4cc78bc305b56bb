import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createAgent, readFileTool } from "@espalier/agent";
import { scriptedModel } from "@espalier/agent/testing";
import { createSession, openSession } from "@espalier/engine";
import { memoryStore } from "@espalier/session-tree";
import { expect, test } from "vitest";
import { workingFolder } from "./stage.ts";

test("a prompt is sent, tools run, and the answer is in the session when the run ends", async () => {
  const cwd = workingFolder();
  writeFileSync(join(cwd, "notes.txt"), "the tide is high");
  const session = await createSession({ cwd, home: cwd });
  const model = scriptedModel([
    { text: "I look.", calls: [{ id: "c1", name: "read_file", arguments: { path: "notes.txt" } }] },
    { text: "It says that the tide is high." },
  ]);
  const agent = createAgent({ session, model, tools: [readFileTool([cwd])] });
  const answer = await agent.run("What do the notes say?");
  expect(answer?.content).toEqual([{ type: "text", text: "It says that the tide is high." }]);
  expect(model.requests).toHaveLength(2);
  expect(JSON.stringify(model.requests[1])).toContain("the tide is high");
  expect(session.context.messages.map(({ role }) => role)).toEqual([
    "user",
    "assistant",
    "toolResult",
    "assistant",
  ]);
  await session.close();
  const reopened = await openSession({ file: session.file }, { mode: "read", home: cwd });
  expect(reopened.context).toEqual(session.context);
});

test("a blank prompt is refused with a sentence, and nothing is written", async () => {
  const session = await createSession({ home: workingFolder() });
  const agent = createAgent({ session, model: scriptedModel([]) });
  for (const prompt of ["", " \n\t"])
    await expect(agent.run(prompt)).rejects.toMatchObject({
      code: "bad-input",
      message: expect.stringContaining("blank"),
    });
  expect(session.getEntries()).toEqual([]);
  await session.close();
});

test("a model whose change cannot be stored is not used", async () => {
  const session = await createSession({ store: memoryStore() });
  const model = scriptedModel([{ text: "Well." }]);
  const agent = createAgent({ session, model });
  await agent.run("How are the pears?");
  await session.close();
  const other = { ...scriptedModel([]), modelId: "other" };
  await expect(agent.setModel(other)).rejects.toThrow();
  expect(agent.model).toBe(model);
});
