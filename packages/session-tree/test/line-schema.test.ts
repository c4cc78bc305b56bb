import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { type Entry, entryKinds, memoryStore, type OwnEntry, SessionTree } from "@espalier/session-tree";
import { FileLog } from "@espalier/session-tree/node";
import schema from "@espalier/session-tree/session-line.schema.json" with { type: "json" };
import { Ajv2020 } from "ajv/dist/2020.js";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { OperatedSession } from "./operated-session.ts";
import { operations } from "./random-operations.ts";

const isLine = new Ajv2020({ strict: true, strictRequired: false, strictTypes: false }).compile(schema);

/** What the schema holds against the lines of a log, each with its number; nothing when they are all sound. */
const complaints = (lines: readonly string[]) =>
  lines.flatMap((line, at) =>
    isLine(JSON.parse(line)) ? [] : [`${at + 1}: ${JSON.stringify(isLine.errors)}`],
  );

const linesOf = (text: string) => text.split("\n").filter((line) => line !== "");

const DEMO = new URL("../../../apps/cli/assets/demo-session.jsonl", import.meta.url);
const LARGE = new URL("../../../../shared/corpus/pi/large-session.jsonl", import.meta.url);

const HEADER = {
  type: "session",
  version: 3,
  id: "s1",
  timestamp: "2026-01-01T00:00:00.000Z",
  cwd: "/garden",
};
const place = { id: "e1", parentId: null, timestamp: "2026-01-01T00:00:00.000Z" };
const bill = { input: 1, output: 1, cacheRead: 0, cacheWrite: 0 };

/** An entry of every kind, with all that it must have and nothing else. */
const LEAST: Record<Exclude<Entry["type"], OwnEntry["type"]>, Record<string, unknown>> = {
  message: { message: { role: "user", content: "Hello" } },
  compaction: { summary: "Much was said.", firstKeptEntryId: "e0", tokensBefore: 9 },
  branch_summary: { summary: "Another way was tried.", fromId: "e0" },
  custom_message: { customType: "weather", content: "It rains.", display: true },
  context_edit: { targetId: "e0", replacement: null },
  model_change: { provider: "anthropic", modelId: "claude-sonnet-4-5" },
  thinking_level_change: { thinkingLevel: "high" },
  custom: { customType: "weather" },
  label: { targetId: "e0" },
  session_info: { name: "Rain" },
  usage: { kind: "cache_warm", usage: bill },
  leaf: { targetId: null },
};

const without = (entry: Record<string, unknown>, key: string) =>
  Object.fromEntries(Object.entries(entry).filter(([name]) => name !== key));

describe("the JSON Schema of a line", () => {
  test("accepts the demo session", () => {
    expect(complaints(linesOf(readFileSync(DEMO, "utf8")))).toEqual([]);
  });

  test.skipIf(!existsSync(LARGE))(
    "accepts a long session of the first format after its upgrade",
    async () => {
      const { tree } = await SessionTree.open(FileLog.open(fileURLToPath(LARGE), "read"));
      expect(complaints([...tree.entries()].map((entry) => JSON.stringify(entry)))).toEqual([]);
    },
  );

  test("accepts every line that any operation writes", async () => {
    await fc.assert(
      fc.asyncProperty(operations(12), async (does) => {
        const session = await OperatedSession.create(memoryStore(), 1);
        for (const operation of does) await session.carryOut(operation);
        const text = new TextDecoder().decode(await session.bytes());
        expect(complaints(linesOf(text))).toEqual([]);
      }),
      { numRuns: 60 },
    );
  });

  test("knows every kind of entry", () => {
    const known = entryKinds.flatMap(({ type }) => (type === "" ? [] : [type]));
    expect(Object.keys(LEAST).sort()).toEqual([...known].sort());
  });

  for (const [type, body] of Object.entries(LEAST))
    test(`requires exactly the necessary keys of a ${type}`, () => {
      const entry = { type, ...place, ...body };
      expect(isLine(entry)).toBe(true);
      expect(isLine({ ...entry, heardOfNowhere: 1 })).toBe(true);
      for (const key of Object.keys(entry)) {
        expect(isLine(without(entry, key)), `without ${key}`).toBe(false);
        expect(isLine({ ...entry, [key]: 7.5 }), `${key} a number`).toBe(key === "tokensBefore");
      }
    });

  test("accepts an entry of an unknown kind unchanged", () => {
    expect(isLine({ type: "weather_report", ...place, rain: true })).toBe(true);
  });

  test("requires the necessary keys of a header, and accepts other keys", () => {
    expect(isLine({ ...HEADER, mood: "calm" })).toBe(true);
    for (const key of Object.keys(HEADER)) expect(isLine(without(HEADER, key)), `without ${key}`).toBe(false);
    expect(isLine({ ...HEADER, version: 4 })).toBe(false);
  });

  test("refuses blocks without their required keys", () => {
    const said = (role: string, fields: object) => ({
      type: "message",
      ...place,
      message: { role, ...fields },
    });
    const answer = (block: object) => said("assistant", { content: [block], stopReason: "stop" });
    expect(isLine(answer({ type: "text", text: "Yes." }))).toBe(true);
    expect(isLine(answer({ type: "text" }))).toBe(false);
    expect(isLine(answer({ type: "toolCall", id: "c1", name: "read", arguments: {} }))).toBe(true);
    expect(isLine(answer({ type: "toolCall", id: "c1", name: "read" }))).toBe(false);
    expect(isLine(answer({ type: "thinking", thinking: "Hm." }))).toBe(true);
    expect(isLine(answer({ type: "thinking" }))).toBe(false);
    expect(isLine(said("user", { content: [{ type: "image", data: "aGk=", mimeType: "image/png" }] }))).toBe(
      true,
    );
    expect(isLine(said("user", { content: [{ type: "image" }] }))).toBe(false);
    expect(isLine(said("user", { content: 3 }))).toBe(false);
  });
});
