// An agent on `@anthropic-ai/sdk`. The session keeps the conversation; this loop connects the two.
import Anthropic from "@anthropic-ai/sdk";
import { openOrCreate } from "espalier";
import { anthropic } from "espalier/anthropic";
import { look, run } from "./garden.ts";

export async function ask(id: string, prompt: string, model = "claude-haiku-4-5"): Promise<string> {
  const tools = [{ name: look.name, description: look.description, input_schema: look.parameters }];
  const options = { model, maxTokens: 8_000, system: "You tend a garden.", tools };
  const provider = anthropic(new Anthropic(), options);
  const session = await openOrCreate(id);
  try {
    await session.say(prompt); // on disk when this is done, like every answer and every result below
    for (;;) {
      const request = await session.next(provider); // compacted, repaired, within every limit
      const turn = await session.record(provider, request, { onText: (text) => process.stdout.write(text) });
      if (turn.calls.length > 0) await turn.answerAll((call) => run(call.name, call.input));
      else return turn.text;
    }
  } finally {
    await session.close(); // after an error too, or the next call finds the session busy
  }
}
