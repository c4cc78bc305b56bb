import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type Problems, problemsOf } from "./strict-rules.ts";
import { type Answer, type Asked, askedBy, type Given, type Protocol, replyTo } from "./wire.ts";

/** A server that refuses what the documentation of its provider says that it refuses. */
export interface StrictServer {
  /** What clients take as base address. */
  url: string;
  /** The answer to the next request. */
  next: Answer;
  /** Requests that came. */
  asked: number;
  close(): Promise<void>;
}

/** Starts a server on a free port of 127.0.0.1. It remembers what it answered, so that it knows its own thoughts again. */
export async function startStrictServer(protocol: Protocol): Promise<StrictServer> {
  const given: Given[] = [];
  const server = createServer((incoming, response) => {
    const pieces: Buffer[] = [];
    incoming.on("data", (piece: Buffer) => pieces.push(piece));
    incoming.on("end", () => {
      const send = (status: number, body: object) =>
        response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
      const raw = Buffer.concat(pieces).toString("utf8");
      const body = JSON.parse(raw) as Record<string, unknown>;
      strict.asked += 1;
      const header = incoming.headers["ai-language-model-id"];
      const asked: Asked = askedBy(protocol, body, typeof header === "string" ? header : undefined);
      const problems: Problems = problemsOf(protocol, body, asked, given);
      if (problems.length > 0) {
        const message = problems.slice(0, 5).join("; ");
        return send(400, { type: "error", error: { type: "invalid_request_error", message, code: null } });
      }
      const answer: Given = { ...strict.next, model: asked.model };
      given.push(answer);
      return send(200, replyTo(protocol, answer, given.length));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const strict: StrictServer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    next: { thoughts: [], text: "Ready.", calls: [], isCutOff: false },
    asked: 0,
    async close() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
  return strict;
}
