// An agent of your own: the engine keeps the session, the SDK talks to Claude; this loop is all there is between.
import Anthropic from "@anthropic-ai/sdk";
import { createSession, sentEntry } from "@espalier/engine";
import { buildRequest, anthropicFormat as format } from "@espalier/session-tree";

const client = new Anthropic();
const model = "claude-haiku-4-5";
const tools = [{ name: "look", description: "Says what grows.", parameters: { type: "object" } }];
const run = async (name: string) => (name === "look" ? "Ripe pears." : `There is no tool ${name}.`);
export const session = await createSession({ cwd: process.cwd() });

export async function ask(prompt: string): Promise<string> {
  // On disk before it is sent; and so is, below, every answer and every result before anything comes of it.
  await session.appendMessages([{ role: "user", content: prompt }]);
  for (;;) {
    // The policy and the extensions do here what they do before a request, such as compacting.
    const { context, system } = await session.prepareRequest({ system: "You tend a garden.", tools });
    const request = buildRequest(context, { format, system, tools });
    await session.append(sentEntry(session.leafId, model), { durability: "fsync" });
    const body = { ...request, model, max_tokens: 8_000 } as Anthropic.MessageStreamParams;
    const { content } = await client.messages.stream(body).finalMessage();
    const answer = { role: "assistant", provider: "anthropic", model, content: content.map(stored) };
    await session.appendMessages([answer]);
    const calls = content.filter((block) => block.type === "tool_use");
    if (calls.length === 0) return content.map((block) => ("text" in block ? block.text : "")).join("");
    for (const { id, name } of calls)
      await session.appendMessages([{ role: "toolResult", toolCallId: id, content: await run(name) }]);
  }
}

function stored(block: Anthropic.ContentBlock) {
  if (block.type === "tool_use") {
    const { id, name, input } = block;
    return { type: "toolCall", id, name, arguments: input };
  }
  if (block.type !== "thinking") return { type: "text", text: "text" in block ? block.text : "" };
  return { type: "thinking", thinking: block.thinking, thinkingSignature: block.signature };
}
