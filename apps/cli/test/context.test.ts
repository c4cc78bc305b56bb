import { readFileSync, statSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { DEMO, espalier, espalierJson, HEADER, said, sessionOf } from "./espalier.ts";

test("context --json prints the neutral context of the leaf", async () => {
  const { value } = await espalierJson(["context", DEMO]);
  expect(Object.keys(value)).toEqual(["leafId", "tokens", "messages", "sources", "model", "thinkingLevel"]);
  expect(value).toMatchObject({
    leafId: "2ur7kch3b1oZ",
    tokens: 12_234,
    model: { provider: "anthropic", modelId: "claude-haiku-4-5" },
  });
  expect(value.messages).toHaveLength(62);
  expect(value.sources).toHaveLength(62);
  expect(value.messages[0]).toMatchObject({ role: "compactionSummary" });
  expect(value.sources[0]).toBe("nrT0ch0vvELC");
});

test("context --at prints the context of another entry", async () => {
  const { value } = await espalierJson(["context", DEMO, "--at", "before-cache"]);
  expect(value).toMatchObject({
    leafId: "vPdDiWYGH0ya",
    tokens: 3_857,
    model: { modelId: "claude-sonnet-4-5" },
  });
  const start = await espalierJson(["context", DEMO, "--at", "start"]);
  expect(start.value).toEqual({
    leafId: null,
    tokens: 0,
    messages: [],
    sources: [],
    model: null,
    thinkingLevel: "off",
  });
});

test("context shows people the messages of the model and the number of hidden entries", async () => {
  const { stdout } = await espalier(["context", DEMO]);
  const lines = stdout.split("\n");
  expect(lines[0]).toBe(
    "What the model reads at 2ur7kch3b1oZ: 62 messages, 12,234 tokens · claude-haiku-4-5",
  );
  expect(lines[1]).toMatch(/^The compaction nrT0ch0vvELC replaces \d+ older entries of this path/);
  expect(lines).toContain("user czlV07XwIrba · 152 tokens");
});

test("context --format prints the request for a provider", async () => {
  const [anthropic, chat, responses] = await Promise.all(
    ["anthropic", "openai", "openai-responses"].map((format) =>
      espalier(["context", DEMO, "--format", format]),
    ),
  );
  const request = JSON.parse(anthropic!.stdout);
  expect(request.messages[0]).toMatchObject({ role: "user" });
  expect(request.messages.map(({ role }: { role: string }) => role)).not.toContain("toolResult");
  expect(JSON.parse(chat!.stdout).messages.length).toBeGreaterThan(30);
  expect(JSON.parse(responses!.stdout).input.length).toBeGreaterThan(30);
});

test("a request without messages is an error", async () => {
  const { code, value } = await espalierJson(["context", DEMO, "--at", "start", "--format", "anthropic"]);
  expect(code).toBe(1);
  expect(value.error.code).toBe("empty-context");
});

describe("--trace", () => {
  const trace = async (file: string) => (await espalier(["context", file, "--trace", "--json"])).stderr;

  test("reports that a compaction made it unnecessary to read the beginning of a file", async () => {
    expect(await trace(DEMO)).toMatch(
      /^Read \d+ kB of 242 kB of .*, from its end: a compaction replaces the rest\.\n$/,
    );
  });

  test("reports that the path led to its root, in one pass over the lines", async () => {
    const file = sessionOf(HEADER, said("a", null, "Hello"), said("b", "a", "Are you there?"));
    const [header = ""] = readFileSync(file, "utf8").split("\n");
    const { size } = statSync(file);
    const read = `${size - header.length - 1} B of ${size} B`;
    expect(await trace(file)).toBe(`Read ${read} of ${file}, once: the path goes back to its root.\n`);
  });
});
