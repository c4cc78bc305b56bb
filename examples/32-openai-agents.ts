// The OpenAI Agents SDK on sessions of Espalier: `run` reads and writes its history there.
import { Agent, run, tool } from "@openai/agents";
import { openaiSessions } from "espalier/adapters/openai-agents";
import { type Bed, look, run as lookAt } from "./garden.ts";

const parameters = { ...look.parameters, required: [], additionalProperties: true as const };
const looks = tool({ ...look, parameters, strict: false, execute: (bed) => lookAt(look.name, bed as Bed) });
const gardener = new Agent({
  name: "Gardener",
  instructions: "You tend a garden.",
  model: "gpt-5-mini",
  tools: [looks],
});

export async function ask(id: string, prompt: string): Promise<string> {
  const sessions = openaiSessions(); // files; or openaiSessions({ store: await openStore("postgres://…") })
  try {
    const { finalOutput } = await run(gardener, prompt, { session: sessions.session(id) });
    return finalOutput ?? "";
  } finally {
    await sessions.close();
  }
}
