import { currentSystemMessage } from "@espalier/compaction";
import { type ContextMessage, foldSystem, type SystemMessage } from "@espalier/session-tree";
import { expect, test } from "vitest";

const system = (fields: Partial<SystemMessage>): ContextMessage => ({
  role: "system",
  content: "",
  timestamp: 0,
  ...fields,
});
const tool = (name: string) => ({ name, parameters: { type: "object" } });
const promptOf = (messages: readonly ContextMessage[]) => foldSystem(messages, { toolNameLength: 64 });

test("a compaction carries the system prompt and the tools that a request has before it", () => {
  const messages = [
    system({ content: "Be brief.", sections: { rules: "one", cwd: "/a", skills: "many" } }),
    system({ toolsAdded: [tool("read"), tool("write"), tool("run")] }),
    system({ content: "Be kind.", sections: { rules: "two", skills: null } }),
    system({ toolsRemoved: ["write", { name: "run" }] as never, toolsAdded: [tool("list")] }),
  ];
  const carried = currentSystemMessage(messages)!;
  expect(promptOf([carried])).toEqual(promptOf(messages));
  expect(promptOf(messages).system).toBe("Be brief.\n\nBe kind.\n\ntwo\n\n/a");
});
