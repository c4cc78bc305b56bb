import {
  createExtensionHost,
  decideHook,
  type HookSet,
  hookAlias,
  notifyHook,
  transformHook,
} from "@espalier/extensions";
import { expect, it } from "vitest";
import { context, createTestHost, heard, letter, planned, told } from "./test-host.ts";

it("a handler under an alias gets the alias's type and shape, and only its events", async () => {
  const { host } = createTestHost();
  const seen: unknown[] = [];
  await host.register("a", (api) => {
    api.on("heard", (event) => void seen.push(event));
    api.on("heard", (event) => void seen.push(event));
    api.on("told", (event) => void seen.push(event.type));
  });
  await host.notify(told, { words: ["x", "y"], kind: "inside" }, context);
  await host.notify(told, { words: ["x"], kind: "outside" }, context);
  const event = { type: "heard", count: 2 };
  expect(seen).toEqual([event, event, "told", "told"]);
  expect(seen[0]).toBe(seen[1]);
  expect(Object.isFrozen(seen[0])).toBe(true);
});

it("handlers of a hook and of its aliases have one common order", async () => {
  const { host } = createTestHost();
  const order: string[] = [];
  await host.register("a", (api) => {
    api.on("planned", () => void order.push("own"));
    api.on("foreseen", () => void order.push("early alias"), { priority: 1 });
    api.on("foreseen", () => void order.push("alias"));
  });
  await host.decide(planned, { size: 1 }, context);
  expect(order).toEqual(["early alias", "own", "alias"]);
});

it("answers under an alias are converted to the hook's shape, validated by the hook, and merged with the others", async () => {
  const { host, reports } = createTestHost();
  await host.register("a", (api) => void api.on("planned", () => ({ instructions: "From a." })));
  await host.register(
    "b",
    (api) => void api.on("foreseen", (event) => ({ customInstructions: `Size ${event.preparation.size}.` })),
  );
  await host.register("c", (api) => void api.on("foreseen", () => ({ customInstructions: 3 }) as never));
  const decision = await host.decide(planned, { size: 7 }, context);
  expect(decision.answer).toEqual({ instructions: "From a.\n\nSize 7." });
  expect(decision.owners).toEqual({ instructions: ["a", "b"] });
  expect(reports).toMatchObject([{ kind: "invalid-answer", owners: ["c"], hook: "foreseen" }]);
});

it("a cancellation under an alias cancels", async () => {
  const { host } = createTestHost();
  await host.register("a", (api) => void api.on("foreseen", () => ({ cancel: true })));
  expect((await host.decide(planned, { size: 1 }, context)).cancelled).toEqual({ by: "a", reason: null });
});

it.each([
  ["a hook under a different name", { other: told }],
  ["an alias without its hook", { heard }],
  [
    "an alias of an alias",
    { told, heard, overheard: hookAlias("overheard", { of: heard as never }) },
    '"overheard" is an alias of "heard", which is an alias; make it an alias of a notify or decide hook.',
  ],
  [
    "an alias of a transform hook",
    { letter, note: hookAlias("note", { of: letter as never }) },
    '"note" is an alias of "letter", which is a transform hook; make it an alias of a notify or decide hook.',
  ],
])("a host refuses %s", (_, hooks: HookSet, message: unknown = expect.any(String)) => {
  expect(() => createExtensionHost({ hooks })).toThrow(
    expect.objectContaining({ code: "bad-hook", message }),
  );
});

it.each([
  [
    "a decide hook with a field that every one has",
    () => decideHook<object, { reason: string }>("x", { fields: { reason: "one" } }),
  ],
  ["a transform hook whose field is the type", () => transformHook<string, "type">("x", { field: "type" })],
  ["a hook with a negative time limit", () => notifyHook("x", { timeoutMs: -1 })],
])("%s cannot be created", (_, make) => {
  expect(make).toThrow(expect.objectContaining({ code: "bad-hook" }));
});

it("an alias without a filter or a mapping is only another name", async () => {
  const also = hookAlias("also_told", { of: told });
  const host = createExtensionHost({ hooks: { told, also_told: also } });
  const seen: unknown[] = [];
  await host.register("a", (api) => void api.on("also_told", (event) => void seen.push(event)));
  await host.notify(told, { words: ["x"] }, {});
  expect(seen).toEqual([{ type: "also_told", words: ["x"] }]);
});
