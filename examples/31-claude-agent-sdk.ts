// The Claude Agent SDK on sessions of Espalier: any machine with the same store resumes what another one began.
import { foldSessionSummary, type Options, query } from "@anthropic-ai/claude-agent-sdk";
import { claudeSessionStore } from "espalier/adapters/claude-agent-sdk";

/** Asks, or goes on with the session `options.resume`. Returns the answer, and the id to resume. */
export async function ask(prompt: string, options: Options = {}): Promise<{ id: string; text: string }> {
  // Files; or claudeSessionStore({ foldSessionSummary, store: await openStore("postgres://…") })
  const sessionStore = claudeSessionStore({ foldSessionSummary });
  try {
    for await (const message of query({ prompt, options: { ...options, sessionStore } })) {
      if (message.type !== "result") continue;
      if (message.subtype !== "success") throw new Error(`The run ended: ${message.subtype}.`);
      return { id: message.session_id, text: message.result };
    }
    throw new Error("The run ended without a result.");
  } finally {
    await sessionStore.close();
  }
}
