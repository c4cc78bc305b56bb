// A server that may be killed at any moment. `PUT /ada/7` with a text says message 7 of Ada and returns the answer; a client
// that got none sends the same again, to this server or another one: the message is said once, and the turn goes on.
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import Anthropic from "@anthropic-ai/sdk";
import { EspalierError, openStore, type Session, sessionPool } from "espalier";
import { anthropic } from "espalier/anthropic";
import { message } from "espalier/extend";
import { look, run } from "./garden.ts";

const address = process.env["ESPALIER_STORE"]; // one machine: none, for files; several: postgres://…
const store = address ? await openStore(address) : undefined;
const sessions = sessionPool(store ? { store, idleMs: 0 } : {});
const tools = [{ name: look.name, description: look.description, input_schema: look.parameters }];
const options = { model: "claude-haiku-4-5", maxTokens: 8_000, system: "You tend a garden.", tools };
const provider = anthropic(new Anthropic(), options);

/** Says a message once, and works until it is answered. */
async function answer(session: Session, id: string, prompt: string): Promise<string> {
  await session.say(prompt, { id });
  for (let said = answerTo(session, id); said === undefined; said = answerTo(session, id)) {
    const turn = await session.record(provider, await session.next(provider));
    await turn.answerAll((call) => run(call.name, call.input));
  }
  return answerTo(session, id)!;
}

/** The answer to a message: the last one before the next message, if it calls no tool; undefined while there is none. */
function answerTo(session: Session, id: string): string | undefined {
  const path = session.getBranch();
  const after = path.slice(path.findIndex((entry) => entry.id === id) + 1);
  const messages = after.flatMap((entry) => (message.is(entry) ? [entry.message] : []));
  const next = messages.findIndex(({ role }) => role === "user");
  const last = messages.slice(0, next < 0 ? undefined : next).at(-1);
  const isFailed = last?.role !== "assistant" || last.stopReason === "error" || last.stopReason === "aborted";
  if (isFailed || last.content.some(({ type }) => type === "toolCall")) return next < 0 ? undefined : "";
  return last.content.flatMap((block) => (block.type === "text" ? [block.text] : [])).join("");
}

const server = createServer(async (request, response) => {
  try {
    const [, user = "", id = ""] = new URL(request.url ?? "/", "http://localhost").pathname.split("/");
    const isKnown = request.method === "PUT" && /^[\w-]+$/.test(user) && /^[\w-]+$/.test(id);
    if (!isKnown) return void response.writeHead(404).end("PUT /user/message\n");
    const prompt = await text(request);
    response.end(await sessions.use(user, (session) => answer(session, id, prompt)));
  } catch (error) {
    const isBusy = error instanceof EspalierError && error.code === "busy";
    console.error(error);
    response.writeHead(isBusy ? 503 : 500).end("Send it again.\n");
  }
});
server.listen(Number(process.env["PORT"] ?? 3000), "127.0.0.1", () => console.log(server.address()));

// What was accepted is answered before the process ends.
process.once("SIGTERM", () => {
  server.close();
  void sessions.close().then(() => store?.close());
});
