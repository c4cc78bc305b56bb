// An agent on the Responses API of `openai`.
import { openOrCreate } from "espalier";
import { openaiResponses } from "espalier/openai";
import OpenAI from "openai";
import { look, run } from "./garden.ts";

export async function ask(id: string, prompt: string, model = "gpt-5-mini"): Promise<string> {
  const tools = [{ type: "function" as const, strict: false, ...look }];
  const options = { model, maxTokens: 8_000, system: "You tend a garden.", tools };
  const provider = openaiResponses(new OpenAI(), options);
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
