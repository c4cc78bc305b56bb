import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { ask, order } from "../src/page/source/page-source.ts";

let server: Server | undefined;
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
});

async function serve(answer: RequestListener): Promise<string> {
  server = createServer(answer);
  await new Promise<void>((resolve) => server!.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/act`;
}

const never = new AbortController().signal;

test("an order reports its progress and resolves to its result, however its lines are split", async () => {
  const url = await serve((_, answer) => {
    for (const part of [
      '{"progress":{"outputTokens":0}}\n{"progr',
      'ess":{"outputTokens":7}}\n',
      '{"result":1}\n',
    ])
      answer.write(part);
    answer.end();
  });
  const told: number[] = [];
  expect(await order(url, {}, (tokens) => told.push(tokens), never)).toBe(1);
  expect(told).toEqual([0, 7]);
});

test("a failure has the server's own sentence", async () => {
  const error = { code: "busy", message: "Somebody else writes this session." };
  const late = await serve((_, answer) => answer.end(`${JSON.stringify({ error })}\n`));
  await expect(order(late, {}, () => {}, never)).rejects.toMatchObject(error);
  server!.close();
  const early = await serve((_, answer) => answer.writeHead(409).end(JSON.stringify({ error })));
  await expect(ask(early, { row: 1 })).rejects.toMatchObject(error);
});

test("a server that stops during an order is reported in a sentence", async () => {
  for (const isPolite of [true, false]) {
    const url = await serve((_, answer) => {
      answer.write('{"progress":{"outputTokens":0}}\n', () => (isPolite ? answer.end() : answer.destroy()));
    });
    await expect(order(url, {}, () => {}, never)).rejects.toMatchObject({
      name: "AnswerError",
      code: "offline",
    });
    server!.close();
  }
});

test("an order that is stopped while it runs reports this", async () => {
  const url = await serve((_, answer) => answer.write('{"progress":{"outputTokens":0}}\n'));
  const stopping = new AbortController();
  const acting = order(url, {}, () => stopping.abort(), stopping.signal);
  await expect(acting).rejects.toMatchObject({ name: "AnswerError", code: "aborted" });
});

test("an unreachable server is reported", async () => {
  const url = await serve(() => {});
  await new Promise((resolve) => server!.close(resolve));
  await expect(ask(url)).rejects.toThrow("is `espalier serve` still running?");
});
