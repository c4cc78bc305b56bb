import { HANDLER_LIMIT_MS, LONG_HANDLER_LIMIT_MS } from "@espalier/extensions";
import { expect, it, vi } from "vitest";
import { context, createManualClock, createTestHost, letter, planned, settle, told } from "./test-host.ts";

const never = () => new Promise<void>(() => {});

it("a handler that never returns is abandoned after 10 seconds, and the next one runs", async () => {
  const { clock, advance } = createManualClock();
  const { host, reports } = createTestHost(clock);
  const seen: string[] = [];
  await host.register("hangs", (api) => void api.on("told", never));
  await host.register("b", (api) => void api.on("told", () => void seen.push("b")));
  const done = host.notify(told, { words: [] }, context);
  await advance(HANDLER_LIMIT_MS - 1);
  expect(reports).toEqual([]);
  await advance(1);
  await done;
  expect(seen).toEqual(["b"]);
  expect(reports).toMatchObject([{ kind: "timed-out", owners: ["hangs"], hook: "told" }]);
  expect(reports[0]?.message).toContain("longer than 10000 ms");
});

it("a hook can give its handlers five minutes, and a handler can set another limit", async () => {
  const { clock, advance } = createManualClock();
  const { host, reports } = createTestHost(clock);
  await host.register("hook's", (api) => void api.on("planned", never));
  await host.register("own", (api) => void api.on("planned", never, { timeoutMs: 50 }));
  const done = host.decide(planned, { size: 1 }, context);
  await advance(LONG_HANDLER_LIMIT_MS - 1);
  expect(reports).toEqual([]);
  await advance(1);
  await advance(50);
  await done;
  expect(reports.map(({ kind, owners }) => [kind, ...owners])).toEqual([
    ["timed-out", "hook's"],
    ["timed-out", "own"],
  ]);
});

it("a critical handler that hangs cancels a decide hook", async () => {
  const { clock, advance } = createManualClock();
  const { host } = createTestHost(clock);
  await host.register("guard", (api) => void api.on("planned", never, { critical: true, timeoutMs: 5 }));
  const done = host.decide(planned, { size: 1 }, context);
  await advance(5);
  expect((await done).cancelled).toMatchObject({ by: "guard" });
});

it("an abandoned handler can no longer change the draft", async () => {
  const { clock, advance, pending } = createManualClock();
  const { host, reports } = createTestHost(clock);
  let wakeUp = () => {};
  await host.register(
    "slow",
    (api) =>
      void api.on("letter", async (event) => {
        event.letter.lines.push({ text: "before" });
        await new Promise<void>((resolve) => {
          wakeUp = resolve;
        });
        event.letter.lines.push({ text: "after" });
      }),
  );
  const before = { lines: [{ text: "one" }] };
  const done = host.transform(letter, before, context);
  while (pending() === 0) await settle();
  await advance(HANDLER_LIMIT_MS);
  const after = await done;
  wakeUp();
  await settle();
  expect(after).toBe(before);
  expect(after.lines).toEqual([{ text: "one" }]);
  expect(reports.map((report) => report.kind)).toEqual(["timed-out"]);
});

it("an error of an abandoned handler is a report, never an unhandled rejection", async () => {
  const unhandled: unknown[] = [];
  const listen = (reason: unknown) => unhandled.push(reason);
  process.on("unhandledRejection", listen);
  const { clock, advance } = createManualClock();
  const { host, reports } = createTestHost(clock);
  let fail = (_: unknown) => {};
  await host.register(
    "late",
    (api) =>
      void api.on(
        "told",
        () =>
          new Promise((_, reject) => {
            fail = reject;
          }),
      ),
  );
  const done = host.notify(told, { words: [] }, context);
  await advance(HANDLER_LIMIT_MS);
  await done;
  fail(new Error("connection closed"));
  await settle();
  process.off("unhandledRejection", listen);
  expect(unhandled).toEqual([]);
  expect(reports).toMatchObject([
    { kind: "timed-out" },
    { kind: "late-rejection", owners: ["late"], hook: "told", error: { message: "connection closed" } },
  ]);
});

it.each([
  ["with the signal's reason is right", (reason: unknown) => reason, []],
  ["with an AbortError is right", () => new DOMException("stopped", "AbortError"), []],
  ["with anything else is reported", () => new Error("broken"), ["late-rejection"]],
])("a handler that stops because of an abort %s", async (_, failure, kinds) => {
  const { host, reports } = createTestHost();
  const controller = new AbortController();
  const { signal } = controller;
  let rejected = false;
  await host.register("a", (api) => {
    api.on("told", async () => {
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      await settle();
      rejected = true;
      throw failure(signal.reason);
    });
  });
  const done = host.notify(told, { words: [] }, { ...context, signal });
  controller.abort();
  await done;
  expect(rejected).toBe(false);
  await settle();
  await settle();
  expect(rejected).toBe(true);
  expect(reports.map(({ kind }) => kind)).toEqual(kinds);
});

it("no timer or listener remains", async () => {
  const { clock, pending } = createManualClock();
  const { host } = createTestHost(clock);
  const { signal } = new AbortController();
  const count = vi.spyOn(signal, "addEventListener");
  const uncount = vi.spyOn(signal, "removeEventListener");
  await host.register("a", (api) => {
    api.on("told", () => {});
    api.on("told", () => Promise.reject(new Error("x")));
  });
  for (let round = 0; round < 20; round++) await host.notify(told, { words: [] }, { ...context, signal });
  expect(pending()).toBe(0);
  expect(count).toHaveBeenCalledTimes(40);
  expect(uncount.mock.calls.map((call) => call[1])).toEqual(count.mock.calls.map((call) => call[1]));
});

it("with the machine's clock, a limit of 20 ms ends a handler", async () => {
  const { host, reports } = createTestHost();
  await host.register("hangs", (api) => void api.on("told", never, { timeoutMs: 20 }));
  await host.notify(told, { words: [] }, context);
  expect(reports).toMatchObject([{ kind: "timed-out" }]);
});
