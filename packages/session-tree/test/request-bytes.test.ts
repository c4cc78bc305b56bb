import {
  buildRequest,
  contentBlocks,
  estimateBytes,
  type RequestFormat,
  totalBytes,
} from "@espalier/session-tree";
import fc from "fast-check";
import { expect, test } from "vitest";
import { brokenHistory, contextOf, requestFormats } from "./request-histories.ts";

const said = fc.oneof(
  fc.string({ unit: "binary", maxLength: 400 }),
  fc.constantFrom(
    "",
    '"quoted" \\ and\n\ttabbed',
    "数据".repeat(200),
    "😀".repeat(90),
    "<summary>",
    "\u0001",
  ),
);
const textBlock = said.map((text) => ({ type: "text", text: `.${text}` }));
const picture = fc
  .nat(3_000)
  .map((size) => ({ type: "image", data: `iVBORw0K${"AAAA".repeat(size)}`, mimeType: "image/png" }));
const userBlocks = fc.array(fc.oneof(textBlock, picture), { minLength: 1, maxLength: 4 });

/** A question, calls with their results, and an answer. */
const turn = fc
  .record({
    question: userBlocks,
    calls: fc.array(
      fc.record({
        input: fc.dictionary(fc.string(), fc.jsonValue()),
        content: userBlocks,
        isError: fc.boolean(),
      }),
      { maxLength: 3 },
    ),
    answer: textBlock,
    shell: said,
  })
  .map(({ question, calls, answer, shell }) => (at: number) => {
    const idOf = (call: number) => `toolu_${at}_${call}_`.padEnd(30, "x");
    const answered = { role: "assistant", provider: "anthropic", model: "claude-test" };
    return [
      { role: "user", content: question },
      {
        ...answered,
        content: [
          answer,
          ...calls.map(({ input }, call) => ({
            type: "toolCall",
            id: idOf(call),
            name: "look",
            arguments: input,
          })),
        ],
        stopReason: "toolUse",
      },
      ...calls.map(({ content, isError }, call) => ({
        role: "toolResult",
        toolCallId: idOf(call),
        content,
        isError,
      })),
      { role: "bashExecution", command: shell, output: shell, exitCode: 1 },
      { role: "compactionSummary", summary: shell },
      { ...answered, content: [answer], stopReason: "stop" },
    ];
  });

test("a request never has more bytes than estimated, and not many fewer, in every provider's format", () => {
  fc.assert(
    fc.property(fc.array(turn, { minLength: 1, maxLength: 4 }), (turns) => {
      const context = contextOf(turns.flatMap((make, at) => make(at)));
      const estimated = totalBytes(context.messages);
      const pieces = context.messages.reduce(
        (sum, message) => sum + 2 + contentBlocks(message as { content?: unknown }).length,
        0,
      );
      for (const [name, format] of Object.entries<RequestFormat<unknown>>(requestFormats)) {
        const bytes = Buffer.byteLength(JSON.stringify(buildRequest(context, { format })));
        expect(bytes, name).toBeLessThanOrEqual(estimated + 100);
        // What escapes and a name around each piece may take.
        expect(estimated, name).toBeLessThanOrEqual(2 * bytes + 200 * pieces);
      }
    }),
    { numRuns: 200 },
  );
});

test("an image counts as its base64, not as text", () => {
  const data = "A".repeat(2_500_000);
  const bytes = estimateBytes({
    role: "user",
    content: [{ type: "image", data, mimeType: "image/png" }],
    timestamp: 0,
  });
  expect(bytes - data.length).toBeGreaterThan(0);
  expect(bytes - data.length).toBeLessThan(1_000);
});

test("an image at an address counts as its address", () => {
  const bytes = (content: object[]) => estimateBytes({ role: "user", content, timestamp: 0 } as never);
  const url = `https://example.com/${"a".repeat(10_000)}`;
  expect(bytes([{ type: "imageUrl", url }])).toBe(bytes([{ type: "text", text: url }]));
});

test("any value in the place of messages has a size", () => {
  fc.assert(
    fc.property(brokenHistory, (messages) => {
      for (const message of messages)
        if (typeof message === "object" && message !== null)
          expect(estimateBytes(message as never)).toBeGreaterThanOrEqual(0);
    }),
  );
  let deep: Record<string, unknown> = {};
  for (let depth = 0; depth < 20_000; depth++) deep = { deep };
  const call = { type: "toolCall", id: "a", name: "look", arguments: deep };
  expect(estimateBytes({ role: "assistant", content: [call] } as never)).toBeGreaterThan(180_000);
});

test("of a growing list only the new messages are measured; a list that became shorter is measured again", () => {
  const looked: number[] = [];
  const make = (at: number) => ({
    role: "user",
    get content() {
      looked.push(at);
      return "x".repeat(at);
    },
  });
  const list = Array.from({ length: 5 }, (_, at) => make(at)) as never[];
  const five = totalBytes(list);
  expect(new Set(looked)).toEqual(new Set([0, 1, 2, 3, 4]));
  looked.length = 0;
  list.push(make(5) as never);
  const six = totalBytes(list);
  expect(new Set(looked)).toEqual(new Set([5]));
  expect(six).toBeGreaterThan(five);
  list.length = 5;
  expect(totalBytes(list)).toBe(five);
});
