import { createAnthropic } from "@ai-sdk/anthropic";
import { createSession, openSession, type Session } from "@espalier/engine";
import { aiSdk } from "@espalier/engine/ai-sdk";
import {
  receiveUiMessages,
  showUiVersion,
  uiMessages,
  uiTurn,
  uiVersions,
} from "@espalier/engine/ui-messages";
import { memoryStore } from "@espalier/session-tree";
import { type Reply, startMessagesServer, textReply } from "@espalier/summarizer/testing";
import {
  convertToModelMessages,
  jsonSchema,
  readUIMessageStream,
  safeValidateUIMessages,
  stepCountIs,
  streamText,
  type ToolSet,
  tool,
  type UIMessage,
} from "ai";
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";

let reply: () => Reply = () => textReply("Pears.");
const server = await startMessagesServer({ reply: () => reply() });
afterAll(() => server.close());
const model = createAnthropic({ apiKey: "test", baseURL: `${server.url}/v1` })("claude-haiku-4-5");
const inputSchema = jsonSchema<{ bed?: string }>({ type: "object", properties: { bed: { type: "string" } } });
const tools: ToolSet = {
  look: tool({ inputSchema, execute: async () => ({ pears: 3 }) }),
  burn: tool({
    inputSchema,
    execute: async (): Promise<string> => {
      throw new Error("Never.");
    },
  }),
  dig: tool({ inputSchema, needsApproval: true, execute: async () => "Dug." }),
  ask: tool({ inputSchema }),
};
const provider = aiSdk(model, { maxTokens: 1_000, tools });
const plain = <Value>(value: Value): Value => JSON.parse(JSON.stringify(value)) as Value;

/** A page with `useChat`, and the process that serves it. */
class Page {
  #store = memoryStore();
  #session!: Session;
  messages: UIMessage[] = [];
  #calls = 0;

  async open(): Promise<this> {
    this.#session = await createSession({ id: "ada", cwd: "/garden", store: this.#store, rules: false });
    return this;
  }

  /** The process ends without a word, and another one opens the log. */
  async crash(): Promise<void> {
    await this.#session.close();
    this.#session = await openSession("ada", { store: this.#store, rules: false });
    await this.reload();
  }

  async reload(): Promise<void> {
    this.messages = await uiMessages(this.#session);
  }

  /** Shows another version of a message, where there is one. */
  async pick(at: number): Promise<void> {
    const versions = Object.values(await uiVersions(this.#session));
    const picked = versions[at % versions.length];
    if (picked) this.messages = await showUiVersion(this.#session, picked.ids[at % picked.ids.length]!);
  }

  /** Sends the page's last messages, and reads the answer. */
  async send(steps: readonly string[], { isAborted = false } = {}): Promise<void> {
    const left = [...steps];
    reply = () => this.#replyOf(left.shift() ?? "text", isAborted);
    const kept = await receiveUiMessages(this.#session, this.messages.slice(-2));
    expect(plain(this.messages.at(-1))).toEqual(kept.at(-1));
    const abort = new AbortController();
    const turn = await uiTurn(this.#session, provider, { tools, signal: abort.signal });
    const result = streamText({
      ...turn.request,
      tools,
      stopWhen: stepCountIs(5),
      maxRetries: 0,
      onError: () => {},
    });
    const last = this.messages.at(-1)!;
    const before = last.role === "assistant" ? this.messages.slice(0, -1) : this.messages;
    const stream = result.toUIMessageStream(turn.response);
    let shown = last.role === "assistant" ? last : undefined;
    const message = shown ? { message: structuredClone(shown) } : {};
    for await (const one of readUIMessageStream({ stream, ...message, onError: () => {} })) {
      shown = one;
      if (isAborted && one.parts.some((part) => part.type === "text" && part.state === "streaming"))
        abort.abort();
    }
    await turn.saved;
    const isEmpty = !shown || shown.parts.every(({ type }) => type === "step-start");
    this.messages = [...before, ...(isEmpty ? [] : [shown!])];
    const read = await uiMessages(this.#session);
    expect(read).toEqual(plain(this.messages));
    expect((await safeValidateUIMessages({ messages: read })).success).toBe(true);
    await convertToModelMessages(read);
    expect(server.requests.flatMap(({ problems }) => problems)).toEqual([]);
  }

  #replyOf(kind: string, isAborted: boolean): Reply {
    const thinking = { type: "thinking", thinking: "Hm.", signature: "c2lnbmVk" } as const;
    const text = { type: "text", text: `Text ${++this.#calls} is of several pieces.` } as const;
    const call = (name: string) => ({ type: "tool_use", id: `c${++this.#calls}`, name, input: {} }) as const;
    if (kind === "error")
      return { kind: "error", status: 400, type: "invalid_request_error", message: "No." };
    if (kind === "thought") return { kind: "message", content: [thinking, text, call("look")] };
    if (kind === "two") return { kind: "message", content: [call("look"), call("burn")] };
    if (kind in tools) return { kind: "message", content: [text, call(kind)] };
    const breaks = isAborted ? { breaks: { afterDeltas: 1, how: "hang" } as const } : {};
    return { kind: "message", content: [text], ...breaks };
  }

  say(text: string): void {
    this.messages = [
      ...this.messages,
      { id: `m${++this.#calls}`, role: "user", parts: [{ type: "text", text }] },
    ];
  }

  /** `sendMessage` with a `messageId`. */
  edit(at: number, text: string): boolean {
    const asked = this.messages.filter(({ role }) => role === "user");
    const { id } = asked[at % asked.length] ?? {};
    const place = this.messages.findIndex((message) => message.id === id);
    if (place < 0) return false;
    const parts: UIMessage["parts"] = [{ type: "text", text }];
    this.messages = [...this.messages.slice(0, place), { id: id!, role: "user", parts }];
    return true;
  }

  /** `regenerate` of the last message. */
  regenerate(): boolean {
    if (this.messages.at(-1)?.role === "assistant") this.messages = this.messages.slice(0, -1);
    return this.messages.at(-1)?.role === "user";
  }

  /** Answers everything that waits: approvals, and calls of the page's own tool. */
  respond(approved: boolean): boolean {
    const last = this.messages.at(-1);
    let isChanged = false;
    const parts = last?.parts.map((part) => {
      if (!("state" in part) || last.role !== "assistant") return part;
      const isAsked = part.state === "approval-requested";
      const isOwn = part.type === "tool-ask" && part.state === "input-available";
      isChanged ||= isAsked || isOwn;
      if (isAsked) return { ...part, state: "approval-responded", approval: { ...part.approval, approved } };
      return isOwn ? { ...part, state: "output-available", output: "Roses." } : part;
    });
    if (isChanged) this.messages = [...this.messages.slice(0, -1), { ...last!, parts } as UIMessage];
    return isChanged;
  }
}

const step = fc.constantFrom("look", "burn", "dig", "ask", "two", "thought", "text", "error");
const steps = fc.array(step, { maxLength: 3 });
const act = fc.oneof(
  { weight: 4, arbitrary: fc.record({ act: fc.constant("say" as const), steps, isAborted: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ act: fc.constant("edit" as const), steps, at: fc.nat(9) }) },
  { weight: 2, arbitrary: fc.record({ act: fc.constant("regenerate" as const), steps }) },
  {
    weight: 3,
    arbitrary: fc.record({ act: fc.constant("respond" as const), steps, approved: fc.boolean() }),
  },
  fc.record({ act: fc.constant("pick" as const), at: fc.nat(9) }),
  fc.record({ act: fc.constantFrom("reload" as const, "crash" as const) }),
);

test("after any actions of a page, it shows the content of the log, and no request is refused", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(act, { minLength: 3, maxLength: 12, size: "max" }), async (acts) => {
      server.requests.length = 0;
      const page = await new Page().open();
      for (const [at, one] of acts.entries()) {
        if (one.act === "say") {
          page.say(`Question ${at}.`);
          await page.send(one.steps, one);
        } else if (one.act === "edit" && page.edit(one.at, `Edited ${at}.`)) await page.send(one.steps);
        else if (one.act === "regenerate" && page.regenerate()) await page.send(one.steps);
        else if (one.act === "respond" && page.respond(one.approved)) await page.send(one.steps);
        else if (one.act === "pick") await page.pick(one.at);
        else if (one.act === "crash") await page.crash();
        else if (one.act === "reload") await page.reload();
      }
    }),
    { numRuns: Number(process.env["RUNS"] ?? 30) },
  );
});
