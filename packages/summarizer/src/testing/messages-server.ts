import { setMaxListeners } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import {
  checkAnthropicRequest,
  type LoopbackServer,
  startLoopbackServer,
} from "@espalier/session-tree/testing";
import { type CountTokens, PromptCache, quarterOfBytes } from "./prompt-cache.ts";

/** Options of the server. */
export interface MessagesServerOptions {
  /** One reply for all requests, or a function of the request and its number (from 1). */
  reply: Reply | ((request: ReceivedRequest, n: number) => Reply | Promise<Reply>);
  /**
   * A request that needs more tokens than this, including its `max_tokens`, gets 400 `prompt is too long`. Default: no
   * limit.
   */
  contextWindow?: number;
  /** Counts the tokens of a request. Default: a quarter of its bytes. */
  countTokens?: CountTokens;
  /** True: a request that breaks a rule of the API gets 400. False: it is only recorded in `problems`. Default true. */
  check?: boolean;
  /** Key that requests must have. Default: any key, or none. */
  apiKey?: string;
  /** False: `/v1/messages/count_tokens` is answered with 404, as by servers without it. Default true. */
  counts?: boolean;
  /** Maximum number of bytes of a body; a larger one gets 413. Default: 64 MB. */
  largestBody?: number;
}

/** A request that the server received. */
export interface ReceivedRequest {
  /** Number of the request among those of its kind (messages, or counts), from 1. */
  n: number;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Bytes of the body. */
  raw: Buffer;
  /** Parsed body; an empty object when it is not a JSON object. */
  body: Record<string, unknown>;
  /** Rules of the API that the request breaks, a sentence each. */
  problems: string[];
  /** Time of the request's arrival in milliseconds (`performance.now`). */
  receivedAt: number;
  /** Time of the end of the answer in milliseconds, successful or not; absent while it is open. */
  answeredAt?: number;
  /** Number of open requests at the arrival of this one, which is included. */
  inFlight: number;
}

/** A running server of the Messages API. */
export interface MessagesServer extends LoopbackServer {
  /** Requests for messages, in the order of their arrival. */
  requests: ReceivedRequest[];
  /** Requests to count tokens. */
  counted: ReceivedRequest[];
  /** Errors thrown by a `reply` function; such a request is answered with 500. */
  failures: unknown[];
}

/** Starts an HTTP server on a free port of 127.0.0.1 that speaks the Messages API, as JSON and as server-sent events. */
export async function startMessagesServer(options: MessagesServerOptions): Promise<MessagesServer> {
  const stopping = new AbortController();
  // Every answer that waits listens to it.
  setMaxListeners(0, stopping.signal);
  const answering = new Answering(options, stopping.signal);
  const { url, close } = await startLoopbackServer((...exchange) => void answering.handle(...exchange));
  const { requests, counted, failures } = answering;
  return {
    url,
    requests,
    counted,
    failures,
    async close() {
      stopping.abort();
      await close();
    },
  };
}

class Answering {
  readonly requests: ReceivedRequest[] = [];
  readonly counted: ReceivedRequest[] = [];
  readonly failures: unknown[] = [];
  readonly #options: MessagesServerOptions;
  readonly #stopping: AbortSignal;
  readonly #count: CountTokens;
  readonly #cache = new PromptCache();
  /** Contents of answers that ended in `pause_turn`, as JSON: a request that ends with one is continued. */
  readonly #paused: string[] = [];
  #inFlight = 0;

  constructor(options: MessagesServerOptions, stopping: AbortSignal) {
    this.#options = options;
    this.#stopping = stopping;
    this.#count = options.countTokens ?? quarterOfBytes;
  }

  async handle(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      await this.#route(incoming, response);
    } catch (error) {
      if (!this.#stopping.aborted) this.failures.push(error);
      if (response.headersSent) response.destroy();
      else sendError(response, errorReply(500, String(error)));
    }
  }

  async #route(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const raw = await readBody(incoming, this.#options.largestBody ?? 64_000_000);
    const path = incoming.url?.split("?")[0];
    const isCount = path === "/v1/messages/count_tokens";
    const isKnown = isCount ? this.#options.counts !== false : path === "/v1/messages";
    if (incoming.method !== "POST" || !isKnown) return sendError(response, errorReply(404, "Not found"));
    if (!this.#isAuthorized(incoming)) return sendError(response, errorReply(401, "invalid x-api-key"));
    if (!raw) return sendError(response, errorReply(413, "Request exceeds the maximum size"));
    const kind = isCount ? this.counted : this.requests;
    const body = parseBody(raw);
    // A request to count tokens has no output limit.
    const checked = isCount ? { max_tokens: 1, ...body } : body;
    const request: ReceivedRequest = {
      n: kind.length + 1,
      headers: incoming.headers,
      raw,
      body,
      problems: checkAnthropicRequest(checked, { endsWithUser: !isCount && !this.#continues(body) }),
      receivedAt: performance.now(),
      inFlight: ++this.#inFlight,
    };
    kind.push(request);
    try {
      await this.#answer(request, response, isCount);
    } finally {
      this.#inFlight--;
      request.answeredAt = performance.now();
    }
  }

  /** Returns whether a request ends with an unchanged paused answer. */
  #continues({ messages }: ReceivedRequest["body"]): boolean {
    const last: unknown = Array.isArray(messages) ? messages.at(-1) : undefined;
    const { role, content } = (last ?? {}) as { role?: unknown; content?: unknown };
    if (role !== "assistant" || !Array.isArray(content)) return false;
    return this.#paused.some((paused) => {
      const { length } = JSON.parse(paused) as unknown[];
      return JSON.stringify(content.slice(-length)) === paused;
    });
  }

  #isAuthorized({ headers }: IncomingMessage): boolean {
    const { apiKey } = this.#options;
    return (
      apiKey === undefined || headers["x-api-key"] === apiKey || headers.authorization === `Bearer ${apiKey}`
    );
  }

  async #answer(request: ReceivedRequest, response: ServerResponse, isCount: boolean): Promise<void> {
    const { reply, check = true, contextWindow = Number.POSITIVE_INFINITY } = this.#options;
    const { body, problems } = request;
    if (check && problems.length > 0) return sendError(response, errorReply(400, problems.join("; ")));
    const size = this.#count(body);
    if (isCount) return sendJson(response, 200, { input_tokens: size });
    if (size + Number(body["max_tokens"]) > contextWindow) {
      return sendError(response, tooLongReply(size, contextWindow));
    }
    const given = typeof reply === "function" ? await reply(request, request.n) : reply;
    const usage = given.kind === "message" ? this.#usage(body, given, size) : {};
    if (given.kind === "message" && given.stopReason === "pause_turn")
      this.#paused.push(JSON.stringify(identified(given, `msg_${request.n}`)));
    await sendReply(response, request, given, usage, this.#stopping);
  }

  #usage(
    body: ReceivedRequest["body"],
    reply: Extract<Reply, { kind: "message" }>,
    size: number,
  ): Record<string, number> {
    const { read, written } = this.#cache.use(body, this.#count);
    return {
      input_tokens: size - read - written,
      cache_read_input_tokens: read,
      cache_creation_input_tokens: written,
      output_tokens: Math.max(1, Math.ceil(JSON.stringify(reply.content).length / 4)),
      ...reply.usage,
    };
  }
}

/** Reads the bytes of a body; undefined when there are more than `largest`. */
async function readBody(incoming: IncomingMessage, largest: number): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes <= largest) chunks.push(chunk);
  }
  return bytes > largest ? undefined : Buffer.concat(chunks);
}

function parseBody(raw: Buffer): Record<string, unknown> {
  try {
    const body: unknown = JSON.parse(raw.toString("utf8"));
    return typeof body === "object" && body !== null ? (body as Record<string, unknown>) : {};
  } catch {
    // A body that is not JSON has no fields; the check then lists all missing ones.
    return {};
  }
}

/** Sends a reply. `stopping` ends every wait. */
async function sendReply(
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

/** Sends an answer as one JSON value. */
function sendJson(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, { "content-type": "application/json", "request-id": "req_1", ...headers });
  response.end(JSON.stringify(body));
}

/** Sends an error in the form of the API. */
function sendError(response: ServerResponse, { status, type, message, headers }: ErrorReply): void {
  sendJson(response, status, { type: "error", error: { type, message }, request_id: "req_1" }, headers);
}

async function breakOff(
  response: ServerResponse,
  how: ReplyBreak["how"],
  stopping: AbortSignal,
): Promise<void> {
  if (how === "hang") return hang(response, stopping);
  if (how === "cut") {
    // The bytes written so far must reach the client before the connection is closed.
    await delay(20, undefined, { signal: stopping });
    response.destroy();
    return;
  }
  if (how === "overloaded") writeEvent(response, overloadedEvent());
  response.end();
}

/** Waits until the client disconnects or the server stops. */
function hang(response: ServerResponse, stopping: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      stopping.removeEventListener("abort", end);
      resolve();
    };
    response.once("close", end);
    stopping.addEventListener("abort", end, { once: true });
  });
}

function writeEvent(response: ServerResponse, { event, data }: MessageEvent): void {
  response.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
}

/** A block of an answer. */
export type ReplyBlock =
  | { type: "text"; text: string }
  | { type: "thinking"; thinking: string; signature: string }
  | { type: "redacted_thinking"; data: string }
  | { type: "tool_use"; id?: string; name: string; input: Record<string, unknown> }
  | { type: "server_tool_use"; id: string; name: string; input: Record<string, unknown> }
  | { type: "web_search_tool_result"; tool_use_id: string; content: readonly Record<string, unknown>[] };

/** Failure in the middle of a streamed answer. */
export interface ReplyBreak {
  /** Number of deltas of the answer before the failure. */
  afterDeltas: number;
  /**
   * `cut`: the connection is closed. `overloaded`: an error event. `end`: the stream ends without its last events.
   * `hang`: nothing more is sent until one side closes the connection.
   */
  how: "cut" | "overloaded" | "end" | "hang";
}

/** An answer of the model. */
export interface MessageReply {
  kind: "message";
  content: readonly ReplyBlock[];
  /** Stop reason. Default: `tool_use` if a block is a call, else `end_turn`. */
  stopReason?: string;
  /** Usage. Default: counted from the request and the answer. */
  usage?: Readonly<Record<string, number>>;
  /** Milliseconds before the first byte. */
  delayMs?: number;
  /** Milliseconds before each delta of a streamed answer. */
  deltaDelayMs?: number;
  /** Number of characters of a delta. Default 20. */
  deltaLength?: number;
  breaks?: ReplyBreak;
}

/** An error with an HTTP status. */
export interface ErrorReply {
  kind: "error";
  status: number;
  type: string;
  message: string;
  headers?: Readonly<Record<string, string>>;
  delayMs?: number;
}

/** Reply to one request. `hang`: the server never answers it. */
export type Reply = MessageReply | ErrorReply | { kind: "hang" };

/** Fields of an answer other than its content. */
export type MessageOptions = Omit<Partial<MessageReply>, "kind" | "content">;

/** Makes an answer of one text. */
export const textReply = (text: string, options: MessageOptions = {}): MessageReply => ({
  kind: "message",
  content: [{ type: "text", text }],
  ...options,
});

/** Makes an answer that calls tools, after a text if there is one. */
export const toolReply = (
  calls: readonly { id?: string; name: string; input: Record<string, unknown> }[],
  options: MessageOptions & { text?: string } = {},
): MessageReply => {
  const { text, ...rest } = options;
  const spoken: ReplyBlock[] = text === undefined ? [] : [{ type: "text", text }];
  return {
    kind: "message",
    content: [...spoken, ...calls.map((call) => ({ type: "tool_use" as const, ...call }))],
    ...rest,
  };
};

/** Makes an error by its status, with the API's type for it. */
export const errorReply = (status: number, message = "Something is wrong", headers = {}): ErrorReply => ({
  kind: "error",
  status,
  type: ERROR_TYPES[status] ?? "api_error",
  message,
  headers,
});

/** Makes an error 429; `seconds` is the value of `retry-after`. */
export const rateLimitedReply = (seconds?: number): ErrorReply =>
  errorReply(
    429,
    "Number of requests has exceeded your rate limit",
    seconds === undefined ? {} : { "retry-after": `${seconds}` },
  );

/** Makes an error 529. */
export const overloadedReply = (): ErrorReply => errorReply(529, "Overloaded");

/** Makes an error 400 with the API's message. */
export const tooLongReply = (tokens = 200_001, most = 200_000): ErrorReply =>
  errorReply(400, `prompt is too long: ${tokens} tokens > ${most} maximum`);

/** Makes a streamed text that breaks off. */
export const brokenReply = (text: string, how: ReplyBreak["how"], afterDeltas = 1): MessageReply =>
  textReply(text, { breaks: { afterDeltas, how } });

/** Makes no answer at all. */
export const hangingReply = (): Reply => ({ kind: "hang" });

const ERROR_TYPES: Record<number, string> = {
  400: "invalid_request_error",
  401: "authentication_error",
  402: "billing_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  500: "api_error",
  504: "timeout_error",
  529: "overloaded_error",
};

/** A server-sent event of the Messages API. */
interface MessageEvent {
  event: string;
  data: Record<string, unknown>;
}

/** Returns a whole answer, as it is sent without streaming. */
function messageBody(
  reply: MessageReply,
  id: string,
  model: unknown,
  usage: Readonly<Record<string, number>>,
): Record<string, unknown> {
  return {
    id,
    type: "message",
    role: "assistant",
    model,
    content: identified(reply, id).map((block) =>
      block.type === "text" ? { ...block, citations: null } : block,
    ),
    stop_reason: stopReason(reply),
    stop_sequence: null,
    usage,
  };
}

/** Yields the events of a streamed answer, in order, with the pieces of each block as deltas. */
function* messageEvents(
  reply: MessageReply,
  id: string,
  model: unknown,
  usage: Readonly<Record<string, number>>,
): Generator<MessageEvent> {
  const whole = messageBody(reply, id, model, usage);
  const started = { ...whole, content: [], stop_reason: null, usage: { ...usage, output_tokens: 1 } };
  yield named("message_start", { message: started });
  yield named("ping", {});
  for (const [index, block] of identified(reply, id).entries()) {
    yield named("content_block_start", { index, content_block: emptied(block) });
    for (const delta of deltas(block, reply.deltaLength ?? 20)) {
      yield named("content_block_delta", { index, delta });
    }
    yield named("content_block_stop", { index });
  }
  const end = { stop_reason: stopReason(reply), stop_sequence: null };
  yield named("message_delta", { delta: end, usage: { output_tokens: usage["output_tokens"] ?? 0 } });
  yield named("message_stop", {});
}

/** Makes the error event of a stream whose provider is overloaded. */
const overloadedEvent = (): MessageEvent =>
  named("error", { error: { type: "overloaded_error", message: "Overloaded" } });

const named = (event: string, data: Record<string, unknown>): MessageEvent => ({
  event,
  data: { type: event, ...data },
});

function stopReason({ stopReason, content }: MessageReply): string {
  return stopReason ?? (content.some(({ type }) => type === "tool_use") ? "tool_use" : "end_turn");
}

/** Returns the blocks, with an id for every call. */
function identified({ content }: MessageReply, id: string): ReplyBlock[] {
  return content.map((block, index) =>
    block.type === "tool_use" ? { ...block, id: block.id ?? `toolu_${id}_${index}` } : block,
  );
}

function emptied(block: ReplyBlock): Record<string, unknown> {
  if (block.type === "text") return { type: "text", text: "" };
  if (block.type === "thinking") return { type: "thinking", thinking: "", signature: "" };
  return "input" in block ? { ...block, input: {} } : block;
}

function* deltas(block: ReplyBlock, length: number): Generator<Record<string, unknown>> {
  if (block.type === "text")
    for (const text of pieces(block.text, length)) yield { type: "text_delta", text };
  else if (block.type === "thinking") {
    for (const thinking of pieces(block.thinking, length)) yield { type: "thinking_delta", thinking };
    yield { type: "signature_delta", signature: block.signature };
  } else if ("input" in block) {
    const json = JSON.stringify(block.input);
    for (const partial of pieces(json, length)) yield { type: "input_json_delta", partial_json: partial };
  }
}

/** Divides a text into pieces of whole code points. */
function* pieces(text: string, length: number): Generator<string> {
  const points = [...text];
  for (let start = 0; start < points.length; start += length)
    yield points.slice(start, start + length).join("");
}
