// The server's side of a chat with `useChat` of the AI SDK, for any framework with `Request` and `Response`. The session is
// the store: it has all versions of all messages, and every step of an answer, should this process end in the middle of it.
import { anthropic } from "@ai-sdk/anthropic";
import { jsonSchema, stepCountIs, streamText, tool, UI_MESSAGE_STREAM_HEADERS } from "ai";
import { EspalierError, openSession, type Session, sessionPool } from "espalier";
import {
  aiSdk,
  liveStreams,
  receiveUiMessages,
  showUiVersion,
  type UiVersions,
  uiMessages,
  uiTurn,
  uiVersions,
} from "espalier/ai-sdk";
import { type Bed, look, run } from "../garden.ts";

const inputSchema = jsonSchema<Bed>(look.parameters);
const execute = (input: Bed) => run(look.name, input);
const tools = { look: tool({ description: look.description, inputSchema, execute }) };
const options = { maxTokens: 8_000, system: "You tend a garden.", tools };
const provider = aiSdk(anthropic("claude-haiku-4-5"), options);
const streams = liveStreams();
export const sessions = sessionPool();

/** The messages on the current path, and the versions of those that have several. */
async function shown(session: Session) {
  return { messages: await uiMessages(session), versions: await uiVersions(session) };
}
export type Chat = Awaited<ReturnType<typeof shown>>;
export type Versions = UiVersions;

/** `GET /api/chat/ada`: the chat from the log, which can be read while an answer is written. */
export async function read(id: string): Promise<Response> {
  try {
    const session = await openSession(id, { mode: "read" });
    return Response.json(await shown(session).finally(() => session.close()));
  } catch (error) {
    if (!(error instanceof EspalierError && error.code === "not-found")) throw error;
    return Response.json({ messages: [], versions: {} } satisfies Chat);
  }
}

/** `POST /api/chat/ada`: takes the page's last messages, and streams the answer. */
export function answer(id: string, messages: unknown): Promise<Response> {
  return new Promise((resolve, reject) => {
    const working = sessions.use(id, async (session) => {
      await receiveUiMessages(session, messages); // a new one, an edited one, or the one before an answer to give again
      const turn = await uiTurn(session, provider, { tools });
      const result = streamText({ ...turn.request, tools, stopWhen: stepCountIs(20) });
      const consumeSseStream = ({ stream }: { stream: ReadableStream<string> }) => streams.keep(id, stream);
      resolve(result.toUIMessageStreamResponse({ ...turn.response, consumeSseStream }));
      await turn.saved;
    });
    working.catch((error: unknown) => {
      console.error(error);
      reject(error);
    });
  });
}

/** `GET /api/chat/ada/stream`: the answer that is being given, from its beginning; 204 where there is none. */
export function resume(id: string): Response {
  const stream = streams.resume(id);
  return new Response(stream, stream ? { headers: UI_MESSAGE_STREAM_HEADERS } : { status: 204 });
}

/** `POST /api/chat/ada/version`: goes to another version of a message. */
export function show(id: string, version: string): Promise<Response> {
  return sessions.use(id, async (session) => {
    await showUiVersion(session, version);
    return Response.json(await shown(session));
  });
}
