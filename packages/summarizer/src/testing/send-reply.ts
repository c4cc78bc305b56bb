import type { ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { type MessageEvent, messageBody, messageEvents, overloadedEvent } from "./message-events.ts";
import type { ReceivedRequest } from "./received-request.ts";
import type { ErrorReply, Reply, ReplyBreak } from "./reply.ts";

/** Carries a reply out. `stopping` ends every wait. */
export async function sendReply(
  response: ServerResponse,
  request: ReceivedRequest,
  reply: Reply,
  usage: Readonly<Record<string, number>>,
  stopping: AbortSignal,
): Promise<void> {
  if (reply.kind === "hang") return hang(response, stopping);
  if (reply.delayMs) await delay(reply.delayMs, undefined, { signal: stopping });
  if (reply.kind === "error") return sendError(response, reply);
  const id = `msg_${request.n}`;
  const { model, stream } = request.body;
  if (stream !== true) return sendJson(response, 200, messageBody(reply, id, model, usage));
  response.writeHead(200, { "content-type": "text/event-stream", "request-id": id });
  let deltas = 0;
  for (const event of messageEvents(reply, id, model, usage)) {
    if (response.destroyed) return;
    if (event.event === "content_block_delta") {
      if (reply.breaks && deltas >= reply.breaks.afterDeltas)
        return breakOff(response, reply.breaks.how, stopping);
      if (reply.deltaDelayMs) await delay(reply.deltaDelayMs, undefined, { signal: stopping });
      deltas++;
    }
    writeEvent(response, event);
  }
  response.end();
}

/** An answer that is one JSON value. */
export function sendJson(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, { "content-type": "application/json", "request-id": "req_1", ...headers });
  response.end(JSON.stringify(body));
}

/** An error in the form of the API. */
export function sendError(response: ServerResponse, { status, type, message, headers }: ErrorReply): void {
  sendJson(response, status, { type: "error", error: { type, message }, request_id: "req_1" }, headers);
}

async function breakOff(
  response: ServerResponse,
  how: ReplyBreak["how"],
  stopping: AbortSignal,
): Promise<void> {
  if (how === "hang") return hang(response, stopping);
  if (how === "cut") {
    // What was written so far must reach the client before the connection is torn.
    await delay(20, undefined, { signal: stopping });
    response.destroy();
    return;
  }
  if (how === "overloaded") writeEvent(response, overloadedEvent());
  response.end();
}

/** Until the client gives up or the server stops. */
function hang(response: ServerResponse, stopping: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    response.on("close", resolve);
    stopping.addEventListener("abort", () => resolve(), { once: true });
  });
}

function writeEvent(response: ServerResponse, { event, data }: MessageEvent): void {
  response.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
}
