// The conformance program of the Model Context Protocol, asked of our server over HTTP by its own process. It needs a newer
// Node than this project, and calls a demonstration server's tools by name: those scenarios are asked of a server of such
// tools, which is served by the same code.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { completable, McpServer, ResourceTemplate } from "@modelcontextprotocol/server";
import { afterAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { type HttpServer, serveOverHttp } from "../src/mcp/server.ts";
import { start, temporaryFolder } from "./espalier.ts";

/** The newest version: those before it know the protocol of 2025 alone. */
const PACKAGES = ["node@24", "@modelcontextprotocol/conformance@0.2.0-alpha.12"];

/** Which scenarios the program runs: for the handshake of 2025, and all that the revision of 2026 requires. */
const SUITES = {
  "2025-11-25": ["--spec-version", "2025-11-25"],
  "2026-07-28": ["--requirements", "2026-07-28"],
} as const;
type Revision = keyof typeof SUITES;

const npx = (...given: string[]) => {
  const packages = PACKAGES.flatMap((name) => ["-p", name]);
  return promisify(execFile)("npx", ["--yes", ...packages, ...given], {
    timeout: 280_000,
    maxBuffer: 1 << 26,
  });
};

/** Installs the program and Node 24. False where npx cannot get them. */
async function hasProgram(): Promise<boolean> {
  try {
    await npx("conformance", "--version");
    return true;
  } catch {
    return false;
  }
}
const isThere = await hasProgram();
const whySkipped = isThere ? "" : " (skipped: npx cannot get the conformance program or Node 24 here)";

/** Runs a suite; the names of the scenarios that passed, and of those that did not. */
async function judge(url: string, revision: Revision) {
  const { stdout } = await npx("conformance", "server", "--url", url, ...SUITES[revision]).catch((error) => {
    if (typeof error.stdout !== "string") throw error;
    return error as { stdout: string };
  });
  const [, summary] = stdout.split("=== SUMMARY ===");
  expect(summary, stdout.slice(-2_000)).toBeDefined();
  const named = (mark: string) =>
    [...summary!.matchAll(new RegExp(`^${mark} ([\\w-]+):`, "gm"))].map(([, name]) => name!);
  return { passed: named("✓").sort(), failed: named("✗").sort() };
}

/** Scenarios that call tools, resources and prompts of a demonstration by name, of kinds that we offer too. */
const DEMONSTRATED = [
  "completion-complete",
  ...["simple", "with-args", "embedded-resource", "with-image"].map((kind) => `prompts-get-${kind}`),
  ...["binary", "text"].map((kind) => `resources-read-${kind}`),
  "resources-templates-read",
  ...["audio", "embedded-resource", "error", "image", "mixed-content", "simple-text"].map(
    (kind) => `tools-call-${kind}`,
  ),
];

/** Scenarios of capabilities that `espalier mcp` does not declare. One that passes has to leave this list. */
const NOT_DECLARED: Readonly<Record<Revision, readonly string[]>> = {
  "2025-11-25": [
    // It asks neither the client's model nor its user.
    ...["elicitation-sep1034-defaults", "elicitation-sep1330-enums"],
    ...["tools-call-elicitation", "tools-call-sampling"],
    // Log messages, which the protocol has withdrawn since; progress, as every call is short.
    ...["logging-set-level", "tools-call-with-logging", "tools-call-with-progress"],
    ...["resources-subscribe", "resources-unsubscribe"],
  ],
  "2026-07-28": [
    ...["basic-elicitation", "basic-list-roots", "basic-sampling", "capability-check", "multi-round"].map(
      (kind) => `input-required-result-${kind}`,
    ),
    ...["multiple-input-requests", "non-tool-request", "request-state", "result-type", "tampered-state"].map(
      (kind) => `input-required-result-${kind}`,
    ),
    // 23 of its checks pass; the others need tools that ask the client, or write log messages.
    "server-stateless",
    "tools-call-with-progress",
    // A tool with every keyword of JSON Schema, and one with headers of its own.
    ...["json-schema-2020-12", "http-custom-header-server-validation"],
    // An extension, which the suite runs without scoring it.
    ...["capability-negotiation", "dispatch-and-envelope", "lifecycle", "mrtr-composition", "mrtr-input"].map(
      (kind) => `tasks-${kind}`,
    ),
    ...["request-headers", "request-state-removal", "required-task-error", "wire-fields"].map(
      (kind) => `tasks-${kind}`,
    ),
  ],
};

/** Scenarios without names of a demonstration, which our own server passes. */
const OURS: Readonly<Record<Revision, readonly string[]>> = {
  "2025-11-25": ["server-initialize", "server-session-lifecycle", "ping"],
  "2026-07-28": ["caching", "http-header-validation", "sep-2164-resource-not-found"],
};
const OURS_IN_BOTH = [
  ...["tools-list", "prompts-list", "resources-list"],
  ...["server-sse-multiple-streams", "dns-rebinding-protection"],
];

const servers: HttpServer[] = [];
afterAll(() => Promise.all(servers.map((server) => server.close())));

describe.skipIf(!isThere)(`the official conformance program${whySkipped}`, () => {
  test.each(Object.keys(SUITES) as Revision[])(
    "for %s: our own tools, resources and prompts",
    { timeout: 600_000 },
    async (revision) => {
      const child = await start(["mcp", "--http", "--json", "--no-import"], { cwd: temporaryFolder() });
      try {
        const line = await new Promise<string>((resolve) =>
          child.stdout.once("data", (data) => resolve(String(data))),
        );
        const { passed, failed } = await judge(JSON.parse(line).url, revision);
        expect(failed).toEqual([...NOT_DECLARED[revision], ...DEMONSTRATED].sort());
        expect(passed).toEqual(expect.arrayContaining([...OURS_IN_BOTH, ...OURS[revision]]));
      } finally {
        child.kill("SIGTERM");
      }
    },
  );

  test.each(Object.keys(SUITES) as Revision[])(
    "for %s: a demonstration's, served by the same code",
    { timeout: 600_000 },
    async (revision) => {
      const server = await serveOverHttp(demonstration);
      servers.push(server);
      const { passed, failed } = await judge(server.url, revision);
      expect(failed).toEqual([...NOT_DECLARED[revision]].sort());
      expect(passed).toEqual(expect.arrayContaining(DEMONSTRATED));
    },
  );
});

const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
const SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

/** A server with the names that the program calls, of what `espalier mcp` offers too: text, errors, resources, prompts. */
function demonstration(): McpServer {
  const server = new McpServer({ name: "demonstration", version: "1.0.0" });
  const text = (said: string) => ({ type: "text" as const, text: said });
  const image = { type: "image" as const, data: PIXEL, mimeType: "image/png" };
  const resource = (uri: string, said: string, mimeType = "text/plain") => ({
    type: "resource" as const,
    resource: { uri, mimeType, text: said },
  });
  const tools = {
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
  for (const [name, content] of Object.entries(tools))
    server.registerTool(name, { description: name, inputSchema: z.object({}) }, () => ({ content }));
  server.registerTool("test_error_handling", { description: "Fails.", inputSchema: z.object({}) }, () => {
    throw new Error("This tool intentionally returns an error for testing");
  });

  const plain = { description: "A resource.", mimeType: "text/plain" };
  server.registerResource("static-text", "test://static-text", plain, (uri) => ({
    contents: [
      { uri: uri.href, mimeType: "text/plain", text: "This is the content of the static text resource." },
    ],
  }));
  server.registerResource("static-binary", "test://static-binary", { mimeType: "image/png" }, (uri) => ({
    contents: [{ uri: uri.href, mimeType: "image/png", blob: PIXEL }],
  }));
  const template = new ResourceTemplate("test://template/{id}/data", { list: undefined });
  server.registerResource("template", template, { mimeType: "application/json" }, (uri, { id }) => ({
    contents: [
      {
        uri: uri.href,
        mimeType: "application/json",
        text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }),
      },
    ],
  }));

  const said = (...contents: ReturnType<typeof text | typeof resource>[]) => ({
    messages: contents.map((content) => ({ role: "user" as const, content })),
  });
  server.registerPrompt("test_simple_prompt", { description: "Simple." }, () =>
    said(text("This is a simple prompt for testing.")),
  );
  const words = (first: string) =>
    completable(z.string(), (typed) => [first].filter((word) => word.startsWith(typed)));
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
  server.registerPrompt("test_prompt_with_image", { description: "With a picture." }, () => ({
    messages: [
      { role: "user", content: image },
      { role: "user", content: text("Please analyze the image above.") },
    ],
  }));
  return server;
}
