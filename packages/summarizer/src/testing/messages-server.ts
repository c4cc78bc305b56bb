import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type CountTokens, PromptCache, quarterOfBytes } from "./prompt-cache.ts";
import { problemsOf, type ReceivedRequest, readBody, receiveRequest } from "./received-request.ts";
import { errorReply, type Reply, tooLongReply } from "./reply.ts";
import { sendError, sendJson, sendReply } from "./send-reply.ts";

/** What the server does. */
export interface MessagesServerOptions {
  /** One reply for all requests, or one by request and its number (from 1). */
  reply: Reply | ((request: ReceivedRequest, n: number) => Reply | Promise<Reply>);
  /** Requests that take more tokens than this with their `max_tokens` get 400 `prompt is too long`. No limit by default. */
  contextWindow?: number;
  /** Tokens of a request; a quarter of its bytes by default. */
  countTokens?: CountTokens;
  /** Whether a request that breaks the rules of the API gets 400 and no reply. True by default. */
  check?: boolean;
  /** The key that requests must carry; any, or none, by default. */
  apiKey?: string;
  /** False: `/v1/messages/count_tokens` is answered with 404, as by servers that lack it. */
  counts?: boolean;
  /** The largest body taken, in bytes: 64 MB; larger ones get 413. */
  largestBody?: number;
}

/** A running server. */
export interface MessagesServer {
  /** What clients take as base address. */
  url: string;
  /** Requests for messages, in the order they came. */
  requests: ReceivedRequest[];
  /** Requests to count tokens. */
  counted: ReceivedRequest[];
  /** What a `reply` function threw; such a request is answered with 500. */
  failures: unknown[];
  /** Ends all connections and the server. */
  close: () => Promise<void>;
}

/** Starts an HTTP server on a free port of 127.0.0.1 that speaks the Messages API, as JSON and as server-sent events. */
export async function startMessagesServer(options: MessagesServerOptions): Promise<MessagesServer> {
  const stopping = new AbortController();
  const answering = new Answering(options, stopping.signal);
  const server = createServer((incoming, response) => void answering.handle(incoming, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const { requests, counted, failures } = answering;
  const close = async () => {
    stopping.abort();
    server.closeAllConnections();
    await new Promise<void>((resolve) => server.close(() => resolve()));
  };
  return { url: `http://127.0.0.1:${port}`, requests, counted, failures, close };
}

class Answering {
  readonly requests: ReceivedRequest[] = [];
  readonly counted: ReceivedRequest[] = [];
  readonly failures: unknown[] = [];
  readonly #options: MessagesServerOptions;
  readonly #stopping: AbortSignal;
  readonly #count: CountTokens;
  readonly #cache = new PromptCache();
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
    const request = receiveRequest(incoming, raw, isCount ? this.counted : this.requests);
    request.problems = problemsOf(request, isCount);
    request.inFlight = ++this.#inFlight;
    try {
      await this.#answer(request, response, isCount);
    } finally {
      this.#inFlight--;
      request.answeredAt = performance.now();
    }
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
