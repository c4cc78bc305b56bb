// An agent of your own: the engine keeps the session, the SDK talks to Claude; this loop is all there is between.
import Anthropic from "@anthropic-ai/sdk";
import { buildRequest, createSession, anthropicFormat as format, sentEntry } from "espalier";
import { fromAnthropic } from "espalier/import";

const client = new Anthropic();
const tools = [{ name: "look", description: "Says what grows.", parameters: { type: "object" } }];
const run = async (name: string) => (name === "look" ? "Ripe pears." : `There is no tool ${name}.`);
export const session = await createSession({ cwd: process.cwd() });

export async function ask(prompt: string, modelId = "claude-haiku-4-5"): Promise<string> {
  const model = { provider: "anthropic", modelId };
  // On disk before it is sent; and so is, below, every answer and every result before anything comes of it.
  await session.appendMessages([{ role: "user", content: prompt }]);
  for (;;) {
    // The policy and the extensions do here what they do before a request, such as compacting.
    const { context, system } = await session.prepareRequest({ system: "You tend a garden.", tools });
    // The model that will read it: what another one thought is not sent to it.
    const request = buildRequest(context, { format, model, system, tools });
    await session.append(sentEntry(session.leafId, modelId), { durability: "fsync" });
    const body = { ...request, model: modelId, max_tokens: 8_000 };
    const answer = await client.messages.stream(body).finalMessage();
    // Every block as the session keeps it, thinking with its signature too.
    const said = fromAnthropic([{ ...answer, model: modelId }], { timestamp: Date.now() });
    await session.appendMessages(said.messages);
    const calls = answer.content.filter((block) => block.type === "tool_use");
    if (calls.length === 0)
      return answer.content.map((block) => (block.type === "text" ? block.text : "")).join("");
    for (const { id, name } of calls)
      await session.appendMessages([{ role: "toolResult", toolCallId: id, content: await run(name) }]);
  }
}
