// A loopback server of OpenAI's APIs, for tests: Chat Completions and Responses, whole and streamed.
import type { ServerResponse } from "node:http";
import { json as jsonIn } from "node:stream/consumers";
import { isRecord } from "@espalier/session-tree";
import {
  chatProblems,
  type LoopbackServer,
  responsesProblems,
  startLoopbackServer,
} from "@espalier/session-tree/testing";

/** An answer of the model. */
export interface OpenaiReply {
  text?: string;
  /** Reasoning: encrypted in Responses, `reasoning_content` in Chat Completions. */
  reasoning?: string;
  /** Reasoning items of Responses, each with a summary and the encrypted text. */
  thoughts?: readonly { text: string; mark: string }[];
  calls?: readonly { id: string; name: string; input: Record<string, unknown> }[];
  /** True when the answer ends at its limit. */
  isCutOff?: boolean;
  /** Ends the connection after this number of pieces of a stream. */
  breaksAfter?: number;
}

/** A failure of the server. */
export interface OpenaiFailure {
  status: number;
  message: string;
  code?: string;
}

/** A request that the server received. */
export interface OpenaiRequest {
  /** Path, such as `/chat/completions`. */
  path: string;
  body: Record<string, unknown>;
  /** Rules of the API that the request breaks, a sentence each. */
  problems: string[];
}

/** A running server. */
export interface OpenaiServer extends LoopbackServer {
  /** Requests in the order they came. */
  requests: OpenaiRequest[];
}

/**
 * Starts a server on a free port of 127.0.0.1. Answers a request that breaks a rule of its API with 400, and another
 * path with 404.
 *
 * @param reply returns the answer to a request and its number, from 1
 */
export async function startOpenaiServer(
  reply: (request: OpenaiRequest, n: number) => OpenaiReply | OpenaiFailure,
): Promise<OpenaiServer> {
  const requests: OpenaiRequest[] = [];
  const { url, close } = await startLoopbackServer((incoming, response) => {
    const given = jsonIn(incoming).catch(() => undefined);
    void given.then((body) => {
      const path = (incoming.url ?? "").replace(/^\/v1/, "");
      const problemsOf = incoming.method === "POST" ? PROBLEMS[path] : undefined;
      if (!problemsOf) {
        const message = `Invalid URL (${incoming.method} ${incoming.url})`;
        return refuse(response, { status: 404, message });
      }
      const problems = isRecord(body)
        ? problemsOf(body)
        : ["We could not parse the JSON body of your request."];
      const request = { path, body: isRecord(body) ? body : {}, problems };
      requests.push(request);
      const answer =
        problems.length > 0 ? { status: 400, message: problems.join("; ") } : reply(request, requests.length);
      if ("status" in answer) return refuse(response, answer);
      const { model, stream } = request.body;
      const facts: Facts = { n: requests.length, model: String(model), reply: answer };
      const isChat = path === "/chat/completions";
      if (stream !== true) return json(response, 200, isChat ? chatCompletion(facts) : responseOf(facts));
      return streamed(response, isChat ? chunks(facts) : events(facts), answer.breaksAfter);
    });
  });
  return { url: `${url}/v1`, requests, close };
}

/** Rules of the server's APIs, by path. */
const PROBLEMS: Readonly<Record<string, (body: Record<string, unknown>) => string[]>> = {
  "/chat/completions": chatProblems,
  "/responses": responsesProblems,
};

interface Facts {
  /** Number of the request. */
  n: number;
  model: string;
  reply: OpenaiReply;
}

function refuse(response: ServerResponse, { status, message, code }: OpenaiFailure): void {
  json(response, status, {
    error: { message, type: "invalid_request_error", param: null, code: code ?? null },
  });
}

function json(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

function streamed(
  response: ServerResponse,
  pieces: readonly object[],
  breaksAfter = Number.POSITIVE_INFINITY,
): void {
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const piece of pieces.slice(0, breaksAfter)) {
    const type = "type" in piece ? `event: ${String(piece.type)}\n` : "";
    response.write(`${type}data: ${JSON.stringify(piece)}\n\n`);
  }
  if (pieces.length > breaksAfter) setTimeout(() => response.destroy(), 20);
  else response.end("data: [DONE]\n\n");
}

/** Divides a text into pieces of a few characters. */
const piecesOf = (text = ""): string[] => text.match(/[\s\S]{1,12}/g) ?? [];

const CHAT_USAGE = {
  prompt_tokens: 120,
  completion_tokens: 10,
  total_tokens: 130,
  prompt_tokens_details: { cached_tokens: 100 },
};

const finishOf = ({ isCutOff, calls = [] }: OpenaiReply) =>
  isCutOff ? "length" : calls.length > 0 ? "tool_calls" : "stop";

const chatCalls = ({ calls = [] }: OpenaiReply) =>
  calls.map(({ id, name, input }) => ({
    id,
    type: "function",
    function: { name, arguments: JSON.stringify(input) },
  }));

function chatCompletion({ n, model, reply }: Facts) {
  const calls = chatCalls(reply);
  const message = {
    role: "assistant",
    content: reply.text || null,
    refusal: null,
    ...(reply.reasoning ? { reasoning_content: reply.reasoning } : {}),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  };
  const choice = { index: 0, message, logprobs: null, finish_reason: finishOf(reply) };
  return {
    id: `chat_${n}`,
    object: "chat.completion",
    created: n,
    model,
    choices: [choice],
    usage: CHAT_USAGE,
  };
}

function chunks({ n, model, reply }: Facts): object[] {
  const chunk = (delta: object, finish_reason: string | null = null) => ({
    id: `chat_${n}`,
    object: "chat.completion.chunk",
    created: n,
    model,
    choices: [{ index: 0, delta, finish_reason }],
  });
  return [
    chunk({ role: "assistant", content: "" }),
    ...piecesOf(reply.reasoning).map((text) => chunk({ reasoning_content: text })),
    ...piecesOf(reply.text).map((content) => chunk({ content })),
    ...chatCalls(reply).flatMap((call, index) => [
      chunk({ tool_calls: [{ index, ...call, function: { ...call.function, arguments: "" } }] }),
      ...piecesOf(call.function.arguments).map((text) =>
        chunk({ tool_calls: [{ index, function: { arguments: text } }] }),
      ),
    ]),
    chunk({}, finishOf(reply)),
    { id: `chat_${n}`, object: "chat.completion.chunk", created: n, model, choices: [], usage: CHAT_USAGE },
  ];
}

function responseOf({ n, model, reply }: Facts) {
  const { text, reasoning, calls = [], isCutOff } = reply;
  const { thoughts = reasoning ? [{ text: "", mark: reasoning }] : [] } = reply;
  const thought = thoughts.map(({ text, mark }, at) => ({
    type: "reasoning",
    id: `rs_${n}_${at}`,
    summary: text === "" ? [] : [{ type: "summary_text", text }],
    encrypted_content: mark,
  }));
  const said = { type: "output_text", text, annotations: [] };
  const message = {
    type: "message",
    id: `msg_${n}`,
    role: "assistant",
    status: "completed",
    content: [said],
  };
  const called = calls.map(({ id, name, input }, at) => ({
    type: "function_call",
    id: `fc_${n}_${at}`,
    call_id: id,
    name,
    arguments: JSON.stringify(input),
    status: "completed",
  }));
  return {
    id: `resp_${n}`,
    object: "response",
    created_at: n,
    model,
    status: isCutOff ? "incomplete" : "completed",
    incomplete_details: isCutOff ? { reason: "max_output_tokens" } : null,
    output: [...thought, ...(text ? [message] : []), ...called],
    usage: {
      input_tokens: 120,
      output_tokens: 10,
      total_tokens: 130,
      input_tokens_details: { cached_tokens: 100 },
    },
  };
}

function events(facts: Facts): object[] {
  const response = responseOf(facts);
  return [
    { type: "response.created", response: { ...response, status: "in_progress", output: [] } },
    ...piecesOf(facts.reply.text).map((delta) => ({
      type: "response.output_text.delta",
      item_id: `msg_${facts.n}`,
      output_index: 0,
      content_index: 0,
      delta,
    })),
    { type: response.status === "completed" ? "response.completed" : "response.incomplete", response },
  ];
}
