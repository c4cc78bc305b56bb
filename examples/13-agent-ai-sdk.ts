// An agent on the AI SDK, with any of its models.
import { jsonSchema, type LanguageModel, tool } from "ai";
import { openOrCreate } from "espalier";
import { aiSdk } from "espalier/ai-sdk";
import { type Bed, look, run } from "./garden.ts";

export async function ask(id: string, prompt: string, model: LanguageModel): Promise<string> {
  const provider = aiSdk(model, {
    maxTokens: 8_000,
    system: "You tend a garden.",
    tools: { look: tool({ description: look.description, inputSchema: jsonSchema<Bed>(look.parameters) }) },
  });
  const session = await openOrCreate(id);
  try {
    await session.say(prompt);
    for (;;) {
      const request = await session.next(provider);
      const turn = await session.record(provider, request, { onText: (text) => process.stdout.write(text) });
      if (turn.calls.length > 0) await turn.answerAll((call) => run(call.name, call.input));
      else return turn.text;
    }
  } finally {
    await session.close();
  }
}
