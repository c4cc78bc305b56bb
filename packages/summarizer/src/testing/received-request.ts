import type { IncomingMessage } from "node:http";
import { checkAnthropicRequest } from "./check-anthropic-request.ts";

/** A request as it came in. */
export interface ReceivedRequest {
  /** Its number among requests of its kind, from 1. */
  n: number;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The bytes of the body. */
  raw: Buffer;
  /** The body parsed; an empty object where it is no JSON object. */
  body: Record<string, unknown>;
  /** What is wrong with it by the rules of the API. */
  problems: string[];
  /** Milliseconds (`performance.now`) when it was read. */
  receivedAt: number;
  /** Milliseconds when its answer ended, however it ended. */
  answeredAt?: number;
  /** Requests that were being answered when it came, itself included. */
  inFlight: number;
}

/** Makes a record of a request and puts it at the end of `kind`. */
export function receiveRequest(
  incoming: IncomingMessage,
  raw: Buffer,
  kind: ReceivedRequest[],
): ReceivedRequest {
  const body = parseBody(raw);
  const request: ReceivedRequest = {
    n: kind.length + 1,
    headers: incoming.headers,
    raw,
    body,
    problems: [],
    receivedAt: performance.now(),
    inFlight: 0,
  };
  kind.push(request);
  return request;
}

/** The problems of a request for a message, or (`isCount`) of one to count tokens, which names no output limit. */
export function problemsOf({ body }: ReceivedRequest, isCount: boolean): string[] {
  return checkAnthropicRequest(isCount ? { max_tokens: 1, ...body } : body, { endsWithUser: !isCount });
}

/** The bytes of a body; undefined where there are more than `largest`. */
export async function readBody(incoming: IncomingMessage, largest: number): Promise<Buffer | undefined> {
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
    // What is no JSON has no fields; the check then names everything that is missing.
    return {};
  }
}
