import { buildRequest, type RequestFormat, RequestWriter } from "@espalier/session-tree";
import fc from "fast-check";
import { afterEach, describe, expect, test, vi } from "vitest";
import { contextOf, requestFormats } from "./request-histories.ts";

afterEach(() => vi.restoreAllMocks());

const textOf = (bytes: Uint8Array): string => new TextDecoder("utf-8", { fatal: true }).decode(bytes);

/** Anything that a program may hand over, plain JSON for the most part. */
const anything = fc.oneof(
  { weight: 4, arbitrary: fc.jsonValue({ noUnicodeString: false }) },
  {
    weight: 1,
    arbitrary: fc.anything({
      withDate: true,
      withBoxedValues: true,
      withNullPrototype: true,
      withSparseArray: true,
    }),
  },
  { weight: 1, arbitrary: fc.constant({ toJSON: () => Math.random() > 0.5 }) },
);

/** A list that lost, gained, repeated or changed something. */
const changed = (list: unknown[], { at, gone, put }: { at: number; gone: number; put: unknown[] }) =>
  list.toSpliced(at % (list.length + 1), gone, ...put);

describe("a request is written", () => {
  test("as JSON.stringify and UTF-8 would write it, whatever was written before", () => {
    const change = fc.record({
      at: fc.nat(20),
      gone: fc.nat(2),
      put: fc.array(anything, { maxLength: 2 }),
      rest: fc.dictionary(fc.string(), anything, { maxKeys: 3 }),
    });
    fc.assert(
      fc.property(fc.array(anything), fc.array(change, { minLength: 1, maxLength: 6 }), (first, changes) => {
        const writer = new RequestWriter();
        let messages = first;
        for (const { rest, ...each } of changes) {
          messages = changed(messages, each);
          const request = { ...rest, messages };
          vi.spyOn(Math, "random").mockReturnValue(each.at / 21);
          expect(textOf(writer.write(request))).toBe(JSON.stringify(request));
        }
      }),
      { numRuns: 500 },
    );
  });

  test("in its current state, even if the same object was changed deep inside", () => {
    const input: Record<string, unknown> = { path: "a", lines: [1, 2] };
    const request = {
      messages: [{ role: "user", content: [{ type: "tool_use", input }] }],
      tools: [{ input }],
    };
    const writer = new RequestWriter();
    for (const change of [
      () => {},
      () => (input["path"] = "b"),
      () => (input["lines"] as unknown[]).push(3),
      () => (input["lines"] = { 0: 1, 1: 2, 2: 3 }),
      () => (input["extra"] = undefined),
      () => (input["extra"] = new Date(0)),
      () => (input["extra"] as Date).setTime(1),
      () => delete input["lines"],
      () => Object.assign(input, { lines: "" }),
    ]) {
      change();
      expect(textOf(writer.write(request))).toBe(JSON.stringify(request));
    }
  });

  test("when it is empty", () => {
    expect(textOf(new RequestWriter().write({}))).toBe("{}");
    expect(textOf(new RequestWriter().write({ left: undefined, out: () => 0 }))).toBe("{}");
  });
});

const formats = Object.entries(requestFormats) as [string, RequestFormat<object>][];

test.each(formats)("of a growing %s conversation only the new part is serialized", (_, format) => {
  const messages = Array.from({ length: 40 }, (_, n) => ({
    role: n % 2 === 0 ? "user" : "assistant",
    content: [{ type: "text", text: `Message ${n}: → größer.` }],
    timestamp: n,
    ...(n % 2 === 0 ? {} : { stopReason: "stop", provider: "anthropic", model: "claude-test", api: "x" }),
  }));
  const writer = new RequestWriter();
  for (let length = 1; length <= messages.length; length++) {
    const request = buildRequest(contextOf(messages.slice(0, length)), { format });
    const stringify = vi.spyOn(JSON, "stringify");
    const text = textOf(writer.write(request));
    const made = stringify.mock.calls.filter(([value]) => typeof value === "object").length;
    stringify.mockRestore();
    expect(made).toBe(1);
    expect(text).toBe(JSON.stringify(request));
  }
});
