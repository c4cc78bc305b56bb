import { ExtensionError } from "@espalier/extensions";
import { expect, it } from "vitest";
import { context, createTestHost, settle, told } from "./test-host.ts";

it("every handler is called, in order, and the caller waits for all of them", async () => {
  const { host } = createTestHost();
  const seen: string[] = [];
  await host.register("a", (api) => {
    api.on("told", async (event) => {
      await settle();
      seen.push(`first ${event.words.join()}`);
    });
    api.on("told", (event) => {
      seen.push(`second ${event.words.join()}`);
    });
  });
  await host.notify(told, { words: ["x", "y"] }, context);
  expect(seen).toEqual(["first x,y", "second x,y"]);
});

it("a handler gets the hook's name as type, and the caller's context unchanged", async () => {
  const { host } = createTestHost();
  const calls: unknown[] = [];
  await host.register("a", (api) => api.on("told", (event, ctx) => calls.push(event.type, ctx)) as never);
  await host.notify(told, { words: [] }, context);
  expect(calls[0]).toBe("told");
  expect(calls[1]).toBe(context);
});

it("a payload is frozen at any depth, but its sets and signals work", async () => {
  const { host, reports } = createTestHost();
  const signal = new AbortController().signal;
  const payload = { words: ["x"], seen: new Set(["file"]), deep: { list: [{ n: 1 }] }, signal };
  await host.register(
    "a",
    (api) =>
      void api.on("told", (event) => {
        const open = event as unknown as typeof payload;
        expect(() => open.words.push("y")).toThrow(TypeError);
        expect(() => {
          open.deep.list[0]!.n = 2;
        }).toThrow(TypeError);
        expect(() => {
          open.words = [];
        }).toThrow(TypeError);
        expect(open.seen.has("file")).toBe(true);
        expect(open.seen.add("other").size).toBe(2);
        expect(open.signal).toBe(signal);
        open.signal.addEventListener("abort", () => {});
      }),
  );
  await host.notify(told, payload, context);
  expect(reports).toEqual([]);
  expect(payload.deep.list[0]!.n).toBe(1);
});

it("the caller's own payload object is not frozen; its content is", async () => {
  const { host } = createTestHost();
  await host.register("a", (api) => void api.on("told", () => {}));
  const payload = { words: ["x"] };
  await host.notify(told, payload, context);
  expect(Object.isFrozen(payload)).toBe(false);
  expect(Object.isFrozen(payload.words)).toBe(true);
});

it("without a handler nothing is frozen or copied", async () => {
  const { host } = createTestHost();
  const payload = {
    get words(): string[] {
      throw new Error("nobody asked");
    },
  };
  await host.notify(told, payload, context);
  expect(host.has(told)).toBe(false);
});

it("a handler that throws is reported with its owner, and the next one is called", async () => {
  const { host, reports } = createTestHost();
  const seen: string[] = [];
  const error = new Error("no disk");
  await host.register(
    "mirror.ts",
    (api) =>
      void api.on("told", () => {
        throw error;
      }),
  );
  await host.register("b", (api) => void api.on("told", () => void seen.push("b")));
  await host.notify(told, { words: [] }, context);
  expect(seen).toEqual(["b"]);
  expect(reports).toEqual([
    {
      kind: "threw",
      owners: ["mirror.ts"],
      hook: "told",
      message: "mirror.ts failed in told: no disk",
      error,
    },
  ]);
});

it("a critical handler that throws is an error for the caller, after all handlers were called", async () => {
  const { host, reports } = createTestHost();
  const seen: string[] = [];
  await host.register(
    "a",
    (api) => void api.on("told", () => Promise.reject(new Error("no disk")), { critical: true }),
  );
  await host.register("b", (api) => void api.on("told", () => void seen.push("b")));
  const failure = await host.notify(told, { words: [] }, context).catch((error) => error);
  expect(failure).toBeInstanceOf(ExtensionError);
  expect(failure).toMatchObject({
    code: "critical-handler-failed",
    owner: "a",
    cause: { message: "no disk" },
  });
  expect(seen).toEqual(["b"]);
  expect(reports.map((report) => report.kind)).toEqual(["threw"]);
});

it.each([[null], [undefined], ["words"], [Symbol("s")], [Object.create(null)], [42n]])(
  "anything can be thrown: %o",
  async (thrown) => {
    const { host, reports } = createTestHost();
    await host.register("a", (api) => void api.on("told", () => Promise.reject(thrown)));
    await host.notify(told, { words: [] }, context);
    expect(reports).toMatchObject([{ kind: "threw", owners: ["a"] }]);
  },
);

it("the answer of a handler of a notify hook is ignored", async () => {
  const { host, reports } = createTestHost();
  await host.register("a", (api) => void api.on("told", () => ({ cancel: true })));
  await host.notify(told, { words: [] }, context);
  expect(reports).toEqual([]);
});

it("an abort ends the wait, and the remaining handlers are still called", async () => {
  const { host, reports } = createTestHost();
  const controller = new AbortController();
  const seen: string[] = [];
  await host.register("a", (api) => {
    api.on("told", () => new Promise(() => {}));
    api.on("told", () => void seen.push("second"));
  });
  const done = host.notify(told, { words: [] }, { ...context, signal: controller.signal });
  controller.abort();
  await done;
  expect(seen).toEqual(["second"]);
  expect(reports).toEqual([]);
});

it("with an already aborted signal, all handlers are still called", async () => {
  const { host } = createTestHost();
  const seen: string[] = [];
  await host.register("a", (api) => {
    api.on("told", (event) => void seen.push(event.words.join()));
    api.on("told", () => new Promise(() => {}));
    api.on("told", () => void seen.push("last"));
  });
  await host.notify(told, { words: ["aborted"] }, { ...context, signal: AbortSignal.abort() });
  expect(seen).toEqual(["aborted", "last"]);
});
