// An agent on Chat Completions of `openai`: the same code talks to Ollama, llama.cpp, vLLM, OpenRouter, by `baseURL`.
import { openOrCreate } from "espalier";
import { openai } from "espalier/openai";
import OpenAI from "openai";
import { look, run } from "./garden.ts";

export async function ask(id: string, prompt: string, model = "gpt-5-mini"): Promise<string> {
  const tools = [{ type: "function" as const, function: look }];
  const options = { model, maxTokens: 8_000, system: "You tend a garden.", tools };
  const provider = openai(new OpenAI(), options);
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
