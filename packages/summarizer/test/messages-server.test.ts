import Anthropic from "@anthropic-ai/sdk";
import {
  brokenReply,
  errorReply,
  hangingReply,
  type MessagesServerOptions,
  overloadedReply,
  rateLimitedReply,
  startMessagesServer,
  textReply,
  toolReply,
} from "@espalier/summarizer/testing";
import { afterEach, describe, expect, it } from "vitest";

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

/** A server with a client of the real SDK that does not retry. */
async function start(options: MessagesServerOptions) {
  const server = await startMessagesServer(options);
  closing.push(server.close);
  const client = new Anthropic({ baseURL: server.url, apiKey: "test", maxRetries: 0 });
  return { server, client };
}

const ask = (content = "hello"): Anthropic.MessageCreateParamsNonStreaming => ({
  model: "claude-sonnet-4-5-x",
  max_tokens: 100,
  messages: [{ role: "user", content }],
});

describe("the loopback server", () => {
  it("answers as JSON and as a stream with the same message", async () => {
    const reply = toolReply([{ name: "read", input: { path: "ü👍", n: 1 } }], {
      text: "Ich lese 👍.",
      deltaLength: 1,
    });
    const thinking = { type: "thinking" as const, thinking: "Hm, hm.", signature: "sig" };
    const { client, server } = await start({ reply: { ...reply, content: [thinking, ...reply.content] } });
    const whole = await client.messages.create(ask());
    const streamed = await client.messages.stream(ask()).finalMessage();
    expect(streamed.content.map(({ type }) => type)).toEqual(["thinking", "text", "tool_use"]);
    const strip = ({ id, ...block }: { id?: string; [key: string]: unknown }) => ({
      ...block,
      citations: null,
    });
    expect(JSON.parse(JSON.stringify(streamed.content)).map(strip)).toEqual(
      JSON.parse(JSON.stringify(whole.content)).map(strip),
    );
    expect(whole.stop_reason).toBe("tool_use");
    expect(streamed.usage).toMatchObject({
      input_tokens: whole.usage.input_tokens,
      output_tokens: whole.usage.output_tokens,
    });
    expect(server.requests.map(({ body }) => body["stream"])).toEqual([undefined, true]);
  });

  it("warns of no leak while many answers wait, or after many clients have left", async () => {
    const warned: string[] = [];
    const note = ({ name }: Error) => warned.push(name);
    process.on("warning", note);
    const { client } = await start({ reply: hangingReply() });
    const leaving = Array.from({ length: 12 }, () => client.messages.create(ask(), { timeout: 50 }));
    for (const { status } of await Promise.allSettled(leaving)) expect(status).toBe("rejected");
    process.off("warning", note);
    expect(warned).toEqual([]);
  });

  it("keeps every request with its original bytes", async () => {
    const { client, server } = await start({ reply: textReply("ok") });
    await client.messages.create(ask("grüße"));
    const [received] = server.requests;
    expect(JSON.parse(received!.raw.toString("utf8"))).toEqual(ask("grüße"));
    expect(received).toMatchObject({
      n: 1,
      problems: [],
      inFlight: 1,
      headers: { authorization: "Bearer test" },
    });
  });

  it("replays a conversation with tools, by the received messages", async () => {
    const { client, server } = await start({
      reply: ({ body }) => {
        const last = (body["messages"] as { content: unknown }[]).at(-1);
        return JSON.stringify(last).includes("tool_result")
          ? textReply("It says hi.")
          : toolReply([{ id: "toolu_1", name: "read", input: {} }]);
      },
    });
    const first = await client.messages.create(ask());
    const messages: Anthropic.MessageParam[] = [
      ...ask().messages,
      { role: "assistant", content: first.content },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_1", content: "hi" }] },
    ];
    // What the API answers goes back to it as it is, `citations: null` included.
    const second = await client.messages.create({ ...ask(), messages });
    expect(second.content).toMatchObject([{ type: "text", text: "It says hi." }]);
    expect(server.requests.flatMap(({ problems }) => problems)).toEqual([]);
  });

  it("refuses requests that the API would refuse, with the API's messages", async () => {
    const { client, server } = await start({ reply: textReply("never") });
    await expect(client.messages.create(ask(""))).rejects.toMatchObject({
      status: 400,
      type: "invalid_request_error",
    });
    expect(server.requests[0]!.problems).toHaveLength(1);
    const lenient = await start({ reply: textReply("ok"), check: false });
    await expect(lenient.client.messages.create(ask(""))).resolves.toBeDefined();
  });

  it("has errors with their status, type and headers", async () => {
    const replies = [rateLimitedReply(3), overloadedReply(), errorReply(401), errorReply(413)];
    const { client } = await start({ reply: (_, n) => replies[n - 1]! });
    await expect(client.messages.create(ask())).rejects.toSatisfy(
      (error: InstanceType<typeof Anthropic.APIError>) =>
        error.status === 429 && error.headers?.get("retry-after") === "3",
    );
    await expect(client.messages.create(ask())).rejects.toMatchObject({
      status: 529,
      type: "overloaded_error",
    });
    await expect(client.messages.create(ask())).rejects.toMatchObject({ status: 401 });
    await expect(client.messages.create(ask())).rejects.toMatchObject({
      status: 413,
      type: "request_too_large",
    });
  });

  it.each(["cut", "overloaded", "end"] as const)("breaks a stream off: %s", async (how) => {
    const { client } = await start({ reply: brokenReply("a text of some length that goes on", how) });
    const texts: string[] = [];
    const stream = client.messages.stream(ask()).on("text", (delta) => texts.push(delta));
    await expect(stream.finalMessage()).rejects.toThrow();
    expect(texts).toHaveLength(1);
  });

  it("counts tokens, if this is on, and has a window", async () => {
    const { client, server } = await start({
      reply: textReply("ok"),
      contextWindow: 1_000,
      countTokens: ({ messages }) => JSON.stringify(messages).length,
    });
    const { max_tokens, ...counted } = ask();
    const { input_tokens } = await client.messages.countTokens(counted);
    expect(input_tokens).toBe(JSON.stringify(counted.messages).length);
    expect(server.counted).toHaveLength(1);
    await expect(client.messages.create(ask("x".repeat(1_000)))).rejects.toThrow("prompt is too long");
    const without = await start({ reply: textReply("ok"), counts: false });
    await expect(without.client.messages.countTokens(counted)).rejects.toMatchObject({ status: 404 });
  });

  it("serves the part of an earlier request with a marker from its cache, to the byte", async () => {
    const { client } = await start({ reply: textReply("ok") });
    const marked: Anthropic.MessageParam = {
      role: "user",
      content: [{ type: "text", text: "long ".repeat(100), cache_control: { type: "ephemeral" } }],
    };
    const usages = [];
    for (const messages of [
      [marked],
      [marked, { role: "user" as const, content: "more" }],
      [{ role: "user" as const, content: "other" }],
    ]) {
      usages.push((await client.messages.create({ ...ask(), messages })).usage);
    }
    expect(usages.map((usage) => (usage.cache_read_input_tokens ?? 0) > 100)).toEqual([false, true, false]);
    expect(usages[0]!.cache_creation_input_tokens).toBeGreaterThan(100);
  });

  it("reports an error of a reply function, and closes at once despite hanging requests", async () => {
    const failing = await start({
      reply: () => {
        throw new Error("no reply today");
      },
    });
    await expect(failing.client.messages.create(ask())).rejects.toThrow("no reply today");
    expect(failing.server.failures).toHaveLength(1);
    const { client, server } = await start({ reply: hangingReply() });
    const hanging = client.messages.create(ask());
    hanging.catch(() => undefined);
    while (server.requests.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    await server.close();
    await expect(hanging).rejects.toThrow();
  });
});
