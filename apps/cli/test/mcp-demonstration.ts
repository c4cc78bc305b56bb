// A server with the names that the conformance program calls: tools, prompts and resources of a demonstration, with every
// capability that `espalier mcp` does not need. Apart from the test, which it would double.
import { randomBytes, randomUUID } from "node:crypto";
import {
  acceptedContent,
  CLIENT_CAPABILITIES_META_KEY,
  type ClientCapabilities,
  type ContentBlock,
  completable,
  createMcpHandler,
  createRequestStateCodec,
  type EventStore,
  fromJsonSchema,
  type InputRequests,
  inputRequired,
  isLegacyRequest,
  type McpHttpHandler,
  McpServer,
  ResourceTemplate,
  type ServerContext,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import { memorySkillFiles, SkillsExtension } from "@modelcontextprotocol/server/ext/skills";
import { z } from "zod";

const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
const SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAAABAAgAZGF0YQAAAAA=";

const text = (said: string) => ({ type: "text" as const, text: said });
const image = { type: "image" as const, data: PIXEL, mimeType: "image/png" };
const resource = (uri: string, said: string, mimeType = "text/plain") => ({
  type: "resource" as const,
  resource: { uri, mimeType, text: said },
});

/** States that a client carries from one call to the next, sealed by a key of this process. */
const states = createRequestStateCodec<{ round: number; name?: string }>({ key: randomBytes(32) });

const skills = await SkillsExtension.load(
  memorySkillFiles({
    "recall/SKILL.md":
      "---\nname: recall\ndescription: Finds what a compaction took away.\n---\nCall recall.\n",
    "recall/references/words.md": "Use rare words.\n",
  }),
);

/**
 * Answers requests for the demonstration: those of the revision of 2026 each by itself, those of 2025 in sessions, without
 * which a server cannot ask its client.
 */
export function demonstrationHandler(): Pick<McpHttpHandler, "fetch" | "close"> {
  const modern: McpHttpHandler = createMcpHandler(() => demonstration(modern), { legacy: "reject" });
  const transports = new Map<string, WebStandardStreamableHTTPServerTransport>();
  const inSession = async (request: Request): Promise<Response> => {
    const id = request.headers.get("mcp-session-id");
    const known = id === null ? undefined : transports.get(id);
    if (known) return known.handleRequest(request);
    if (id !== null) return new Response("There is no such session.\n", { status: 404 });
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (made) => void transports.set(made, transport),
      onsessionclosed: (closed) => void transports.delete(closed),
      eventStore: createEventStore(),
      retryInterval: 200,
    });
    await demonstration(modern, transport).connect(transport);
    return transport.handleRequest(request);
  };
  return {
    fetch: async (request) => ((await isLegacyRequest(request)) ? inSession(request) : modern.fetch(request)),
    async close() {
      await modern.close();
      for (const transport of transports.values()) await transport.close();
    },
  };
}

/** The same server without sessions, as `espalier mcp` is served: none of its calls asks the client while it waits. */
export const statelessDemonstrationHandler = (): McpHttpHandler => {
  const handler: McpHttpHandler = createMcpHandler(() => demonstration(handler));
  return handler;
};

/** Events of a stream, for a client that comes back to it. */
function createEventStore(): EventStore {
  const events: { stream: string; id: string; message: Parameters<EventStore["storeEvent"]>[1] }[] = [];
  return {
    async storeEvent(stream, message) {
      const id = String(events.length);
      events.push({ stream, id, message });
      return id;
    },
    async replayEventsAfter(last, { send }) {
      const { stream } = events[Number(last)]!;
      for (const { id, message } of events.slice(Number(last) + 1).filter((each) => each.stream === stream))
        if (Object.keys(message).length > 0) await send(id, message);
      return stream;
    },
  };
}

function demonstration(
  { notify }: McpHttpHandler,
  transport?: WebStandardStreamableHTTPServerTransport,
): McpServer {
  const server = new McpServer(
    { name: "demonstration", version: "1.0.0" },
    {
      capabilities: {
        tools: { listChanged: true },
        prompts: { listChanged: true },
        resources: { listChanged: true, subscribe: true },
        logging: {},
      },
      requestState: { verify: states.verify },
    },
  );
  addContents(server);
  addNotifications(server, notify, transport);
  if (transport) addQuestions(server);
  addRounds(server);
  addSchemas(server);
  addResources(server);
  addPrompts(server);
  skills.attach(server);
  return server;
}

const NOTHING = z.object({});

/** Adds a tool without arguments. */
function addTool(
  server: McpServer,
  name: string,
  run: (context: ServerContext) => Promise<Awaited<ReturnType<typeof inputRequired>> | string>,
): void {
  server.registerTool(name, { description: name, inputSchema: NOTHING }, async (_, context) => {
    const answer = await run(context);
    return typeof answer === "string" ? { content: [text(answer)] } : answer;
  });
}

function addContents(server: McpServer): void {
  const contents: Record<string, ContentBlock[]> = {
    test_simple_text: [text("This is a simple text response for testing.")],
    test_image_content: [image],
    test_audio_content: [{ type: "audio" as const, data: SILENCE, mimeType: "audio/wav" }],
    test_embedded_resource: [resource("test://embedded-resource", "This is an embedded resource content.")],
    test_multiple_content_types: [
      text("Multiple content types test:"),
      image,
      resource("test://mixed-content-resource", '{"test":"data","value":123}', "application/json"),
    ],
  };
  for (const [name, content] of Object.entries(contents))
    server.registerTool(name, { description: name, inputSchema: NOTHING }, () => ({ content }));
  addTool(server, "test_error_handling", async () => {
    throw new Error("This tool intentionally returns an error for testing");
  });
  addTool(server, "test_streaming_elicitation", async () => "One result, and no request of its own.");
}

/** What a server sends while a call runs, and after a client subscribed to it. */
function addNotifications(
  server: McpServer,
  notify: McpHttpHandler["notify"],
  transport?: WebStandardStreamableHTTPServerTransport,
): void {
  addTool(server, "test_tool_with_logging", async ({ mcpReq }) => {
    for (const data of ["Tool execution started", "Tool processing data", "Tool execution completed"])
      await mcpReq.log("info", data);
    return "Logged.";
  });
  addTool(server, "test_logging_tool", async ({ mcpReq }) => {
    await mcpReq.log("info", "Sent only to a request with a log level.");
    return "Logged.";
  });
  addTool(server, "test_tool_with_progress", async ({ mcpReq }) => {
    const progressToken = mcpReq._meta?.progressToken;
    if (progressToken !== undefined)
      for (const progress of [0, 50, 100])
        await mcpReq.notify({
          method: "notifications/progress",
          params: { progressToken, progress, total: 100 },
        });
    return String(progressToken);
  });
  addTool(server, "test_reconnection", async ({ mcpReq }) => {
    transport?.closeSSEStream(mcpReq.id);
    return "Sent to the client that came back.";
  });
  addTool(server, "test_trigger_tool_change", async () => {
    notify.toolsChanged();
    return "Sent.";
  });
  addTool(server, "test_trigger_prompt_change", async () => {
    notify.promptsChanged();
    return "Sent.";
  });
  for (const method of ["resources/subscribe", "resources/unsubscribe"] as const)
    server.server.setRequestHandler(method, () => ({}));
}

type FormSchema = Parameters<ServerContext["mcpReq"]["elicitInput"]>[0] extends infer Asked
  ? Extract<Asked, { requestedSchema: unknown }>["requestedSchema"]
  : never;

const formOf = (properties: FormSchema["properties"], required = Object.keys(properties)): FormSchema => ({
  type: "object",
  properties,
  required,
});

/** Forms with every kind of field, and one value of each by default. */
const DEFAULTS = formOf(
  {
    name: { type: "string", default: "John Doe" },
    age: { type: "integer", default: 30 },
    score: { type: "number", default: 95.5 },
    status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
    verified: { type: "boolean", default: true },
  },
  [],
);
const OPTIONS = ["option1", "option2", "option3"];
const TITLED = OPTIONS.map((option, at) => ({ const: `value${at + 1}`, title: option }));
const CHOICES = formOf(
  {
    untitledSingle: { type: "string", enum: OPTIONS },
    titledSingle: { type: "string", oneOf: TITLED },
    legacyEnum: { type: "string", enum: ["opt1", "opt2", "opt3"], enumNames: ["One", "Two", "Three"] },
    untitledMulti: { type: "array", items: { type: "string", enum: OPTIONS } },
    titledMulti: { type: "array", items: { anyOf: TITLED } },
  },
  [],
);

/** Questions to the client while a call waits, as before 2026. */
function addQuestions(server: McpServer): void {
  const ask = async ({ mcpReq }: ServerContext, message: string, requestedSchema: FormSchema) => {
    const { action, content } = await mcpReq.elicitInput({ mode: "form", message, requestedSchema });
    return `Elicitation completed: action=${action}, content=${JSON.stringify(content ?? {})}`;
  };
  server.registerTool(
    "test_sampling",
    { description: "Asks the model.", inputSchema: z.object({ prompt: z.string() }) },
    async ({ prompt }, { mcpReq }) => {
      const messages = [{ role: "user" as const, content: text(prompt) }];
      const { content } = await mcpReq.requestSampling({ messages, maxTokens: 100 });
      const [first] = [content].flat();
      return { content: [text(`LLM response: ${first?.type === "text" ? first.text : "none"}`)] };
    },
  );
  server.registerTool(
    "test_elicitation",
    { description: "Asks the user.", inputSchema: z.object({ message: z.string() }) },
    async ({ message }, context) => ({
      content: [text(await ask(context, message, formOf({ response: { type: "string" } })))],
    }),
  );
  addTool(server, "test_elicitation_sep1034_defaults", (context) => ask(context, "Defaults?", DEFAULTS));
  addTool(server, "test_elicitation_sep1330_enums", (context) => ask(context, "Which?", CHOICES));
}

const question = (message: string, properties: FormSchema["properties"]) =>
  inputRequired.elicit({ message, requestedSchema: formOf(properties) });
const sampled = (said: string) =>
  inputRequired.createMessage({ messages: [{ role: "user", content: text(said) }], maxTokens: 100 });

/** Answers that ask the client for more, and end when it calls again with that: since 2026. */
function addRounds(server: McpServer): void {
  const answered = <Fields extends Record<string, unknown>>({ mcpReq }: ServerContext, key: string) =>
    acceptedContent<Fields>(mcpReq.inputResponses, key);
  const given = ({ mcpReq }: ServerContext, key: string) => mcpReq.inputResponses?.[key];
  const userName = () => question("What is your name?", { name: { type: "string" } });

  addTool(server, "test_missing_capability", async (context) =>
    given(context, "answer")
      ? "Answered."
      : inputRequired({ inputRequests: { answer: sampled("Say pong.") } }),
  );
  addTool(server, "test_input_required_result_elicitation", async (context) => {
    const name = answered<{ name: string }>(context, "user_name")?.name;
    return typeof name === "string"
      ? `Hello, ${name}!`
      : inputRequired({ inputRequests: { user_name: userName() } });
  });
  addTool(server, "test_input_required_result_sampling", async (context) => {
    const answer = given(context, "capital_question");
    return answer
      ? JSON.stringify(answer)
      : inputRequired({ inputRequests: { capital_question: sampled("What is the capital of France?") } });
  });
  addTool(server, "test_input_required_result_list_roots", async (context) => {
    const roots = given(context, "client_roots");
    return roots
      ? JSON.stringify(roots)
      : inputRequired({ inputRequests: { client_roots: inputRequired.listRoots() } });
  });
  for (const name of ["request_state", "tampered_state"])
    addTool(server, `test_input_required_result_${name}`, async (context) =>
      context.mcpReq.requestState() && answered(context, "confirm")
        ? "state-ok: the state is whole, and the user agreed"
        : inputRequired({
            inputRequests: { confirm: question("Please confirm", { ok: { type: "boolean" } }) },
            requestState: await states.mint({ round: 1 }),
          }),
    );
  addTool(server, "test_input_required_result_multiple_inputs", async (context) => {
    const responses = ["user_name", "greeting", "client_roots"].map((key) => given(context, key));
    if (responses.every((response) => response !== undefined)) return JSON.stringify(responses);
    return inputRequired({
      inputRequests: {
        user_name: userName(),
        greeting: sampled("Generate a greeting"),
        client_roots: inputRequired.listRoots(),
      },
      requestState: await states.mint({ round: 1 }),
    });
  });
  addTool(server, "test_input_required_result_multi_round", async (context) => {
    const { round = 0, name = "" } = context.mcpReq.requestState<{ round: number; name?: string }>() ?? {};
    if (round === 0)
      return inputRequired({
        inputRequests: { step1: question("What is your name?", { name: { type: "string" } }) },
        requestState: await states.mint({ round: 1 }),
      });
    if (round === 1)
      return inputRequired({
        inputRequests: { step2: question("What is your favorite color?", { color: { type: "string" } }) },
        requestState: await states.mint({
          round: 2,
          name: answered<{ name: string }>(context, "step1")?.name ?? "",
        }),
      });
    return `${name} likes ${answered<{ color: string }>(context, "step2")?.color}`;
  });
  addTool(server, "test_input_required_result_capabilities", async ({ mcpReq }) => {
    // The SDK exports the fields of an envelope without their types.
    const envelope: Readonly<Record<string, ClientCapabilities>> = mcpReq.envelope ?? {};
    const declared = envelope[CLIENT_CAPABILITIES_META_KEY];
    const asked: InputRequests = {
      ...(declared?.elicitation ? { user_name: userName() } : {}),
      ...(declared?.sampling ? { greeting: sampled("Generate a short greeting") } : {}),
      ...(declared?.roots ? { client_roots: inputRequired.listRoots() } : {}),
    };
    if (mcpReq.inputResponses || Object.keys(asked).length === 0) return "Asked for nothing more.";
    return inputRequired({ inputRequests: asked });
  });
}

/** Schemas by hand, whose keywords have to arrive as they are. */
function addSchemas(server: McpServer): void {
  const region = { type: "string", "x-mcp-header": "Region" };
  server.registerTool(
    "test_x_mcp_header",
    {
      description: "Has a parameter that is a header too.",
      inputSchema: fromJsonSchema<{ region?: string }>({ type: "object", properties: { region } }),
    },
    ({ region }) => ({ content: [text(`region=${region}`)] }),
  );
  const strings = (...names: string[]) => Object.fromEntries(names.map((name) => [name, { type: "string" }]));
  server.registerTool(
    "json_schema_2020_12_tool",
    {
      description: "Has a schema with keywords of 2020-12.",
      inputSchema: fromJsonSchema({
        $schema: "https://json-schema.org/draft/2020-12/schema",
        type: "object",
        $defs: { address: { $anchor: "addressDef", type: "object", properties: strings("street", "city") } },
        properties: {
          ...strings("name", "phone", "email"),
          address: { $ref: "#/$defs/address" },
          contactMethod: { type: "string", enum: ["phone", "email"] },
        },
        allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
        if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
        // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema.
        then: { required: ["phone"] },
        else: { required: ["email"] },
        additionalProperties: false,
      }),
    },
    (given) => ({ content: [text(JSON.stringify(given))] }),
  );
}

function addResources(server: McpServer): void {
  const texts = {
    "static-text": "This is the content of the static text resource.",
    "watched-resource": "Watched.",
  };
  for (const [name, said] of Object.entries(texts))
    server.registerResource(name, `test://${name}`, { mimeType: "text/plain" }, ({ href }) => ({
      contents: [{ uri: href, mimeType: "text/plain", text: said }],
    }));
  server.registerResource("static-binary", "test://static-binary", { mimeType: "image/png" }, ({ href }) => ({
    contents: [{ uri: href, mimeType: "image/png", blob: PIXEL }],
  }));
  const template = new ResourceTemplate("test://template/{id}/data", { list: undefined });
  const mimeType = "application/json";
  server.registerResource("template", template, { mimeType }, ({ href }, { id }) => {
    const data = { id, templateTest: true, data: `Data for ID: ${id}` };
    return { contents: [{ uri: href, mimeType, text: JSON.stringify(data) }] };
  });
}

function addPrompts(server: McpServer): void {
  const said = (...contents: ContentBlock[]) => ({
    messages: contents.map((content) => ({ role: "user" as const, content })),
  });
  const words = (first: string) =>
    completable(z.string(), (typed) => [first].filter((word) => word.startsWith(typed)));
  server.registerPrompt("test_simple_prompt", { description: "Simple." }, () =>
    said(text("This is a simple prompt for testing.")),
  );
  server.registerPrompt(
    "test_prompt_with_arguments",
    { description: "With arguments.", argsSchema: z.object({ arg1: words("test1"), arg2: words("test2") }) },
    ({ arg1, arg2 }) => said(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)),
  );
  server.registerPrompt(
    "test_prompt_with_embedded_resource",
    { description: "With a resource.", argsSchema: z.object({ resourceUri: z.string() }) },
    ({ resourceUri }) =>
      said(
        resource(resourceUri, "Embedded resource content for testing."),
        text("Please process the embedded resource above."),
      ),
  );
  server.registerPrompt("test_prompt_with_image", { description: "With a picture." }, () =>
    said(image, text("Please analyze the image above.")),
  );
  server.registerPrompt(
    "test_input_required_result_prompt",
    { description: "Asks first.", argsSchema: NOTHING },
    (_, { mcpReq }) => {
      const given = acceptedContent<{ context: string }>(mcpReq.inputResponses, "user_context")?.context;
      return given === undefined
        ? inputRequired({
            inputRequests: {
              user_context: question("What context should the prompt use?", { context: { type: "string" } }),
            },
          })
        : said(text(`Use the following context: ${given}`));
    },
  );
}
