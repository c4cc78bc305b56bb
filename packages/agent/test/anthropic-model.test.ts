import { anthropicModel, createAgent } from "@espalier/agent";
import { createSession } from "@espalier/engine";
import { memoryStore } from "@espalier/session-tree";
import { textReply } from "@espalier/summarizer/testing";
import { expect, test } from "vitest";
import { quiet, server } from "./stage.ts";

test("thinking that is fixed has its tokens beside those of the answer", async () => {
  const { url, requests } = await server({ reply: textReply("Pears.") });
  const session = await createSession({ store: memoryStore(), log: quiet });
  const model = anthropicModel({
    apiKey: "key-of-the-test",
    baseURL: url,
    model: "claude-haiku-4-5",
    parameters: { thinking: { type: "enabled", budget_tokens: 20_000 } },
  });
  expect(await createAgent({ session, model }).run("What grows here?")).toMatchObject({ stopReason: "stop" });
  expect(requests[0]).toMatchObject({ problems: [], body: { max_tokens: 36_384 } });
});
