import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { createExtensionHost, ExtensionError, notifyHook } from "@espalier/extensions";
import { expect, expectTypeOf, it } from "vitest";
import { context, createManualClock, createTestHost, hooks, settle, type Told, told } from "./test-host.ts";

it("a higher priority is called first; equal ones are called in the order of registration", async () => {
  const { host } = createTestHost();
  const order: string[] = [];
  const say = (word: string) => () => void order.push(word);
  await host.register("a", (api) => {
    api.on("told", say("plain 1"));
    api.on("told", say("last"), { priority: -1 });
    api.on("told", say("early 1"), { priority: 10 });
  });
  await host.register("b", (api) => {
    api.on("told", say("plain 2"), { priority: 0 });
    api.on("told", say("early 2"), { priority: 10 });
    api.on("told", say("first"), { priority: 10.5 });
  });
  await host.notify(told, { words: [] }, context);
  expect(order).toEqual(["first", "early 1", "early 2", "plain 1", "plain 2", "last"]);
});

it("`on` returns the function that removes the handler, which can be called repeatedly", async () => {
  const { host } = createTestHost();
  const seen: string[] = [];
  const removers: (() => void)[] = [];
  await host.register("a", (api) => {
    const handler = () => void seen.push("a");
    removers.push(api.on("told", handler), api.on("told", handler));
  });
  removers[0]?.();
  removers[0]?.();
  await host.notify(told, { words: [] }, context);
  expect(seen).toEqual(["a"]);
  removers[1]?.();
  expect(host.has(told)).toBe(false);
});

it("`register` returns the function that removes the whole extension, which then can register nothing more", async () => {
  const { host } = createTestHost();
  let late = () => {};
  const remove = await host.register("a", (api) => {
    api.on("told", () => {});
    api.on("letter", () => {});
    late = () => void api.on("told", () => {});
  });
  await host.register("b", (api) => void api.on("letter", () => {}));
  remove();
  expect(host.has(hooks.told)).toBe(false);
  expect(host.has(hooks.letter)).toBe(true);
  expect(late).toThrow(expect.objectContaining({ code: "unregistered", owner: "a" }));
});

it("a handler added during a run waits for the next; one removed before its turn is not called", async () => {
  const { host } = createTestHost();
  const seen: string[] = [];
  await host.register("a", (api) => {
    let remove = () => {};
    api.on("told", () => {
      remove();
      api.on("told", () => void seen.push("added"));
    });
    remove = api.on("told", () => void seen.push("removed"));
    api.on("told", () => void seen.push("last"));
  });
  await host.notify(told, { words: [] }, context);
  expect(seen).toEqual(["last"]);
  await host.notify(told, { words: [] }, context);
  expect(seen).toEqual(["last", "last", "added"]);
});

it("an unknown hook is reported, and the extension continues", async () => {
  const { host, reports } = createTestHost();
  await host.register("foreign.ts", (api) => {
    const remove = api.on("tool_call" as "told", () => {});
    api.on("toString" as "told", () => {});
    api.on("told", () => {});
    remove();
  });
  expect(host.has(told)).toBe(true);
  expect(reports).toMatchObject([
    { kind: "unknown-hook", owners: ["foreign.ts"], hook: "tool_call" },
    { kind: "unknown-hook", owners: ["foreign.ts"], hook: "toString" },
  ]);
});

it("a handler can be registered with the hook itself, also with another instance of it", async () => {
  const { host } = createTestHost();
  const seen: string[][] = [];
  await host.register("a", (api) => {
    api.on(told, (event) => void seen.push(event.words));
    api.on(notifyHook<Told>("told"), (event) => void seen.push(event.words));
  });
  await host.notify(told, { words: ["x"] }, context);
  expect(seen).toEqual([["x"], ["x"]]);
});

it("`has` answers for a hook and for its aliases before a payload is built", async () => {
  const { host } = createTestHost();
  expect([host.has(hooks.told), host.has(hooks.heard)]).toEqual([false, false]);
  await host.register("a", (api) => void api.on("heard", () => {}));
  expect([host.has(hooks.told), host.has(hooks.heard), host.has(hooks.planned)]).toEqual([true, true, false]);
});

it("a setup that throws leaves no handler", async () => {
  const { host } = createTestHost();
  const failure = await host
    .register("half.ts", async (api) => {
      api.on("told", () => {});
      await settle();
      throw new TypeError("api.registerTool is not a function");
    })
    .catch((error) => error);
  expect(failure).toBeInstanceOf(ExtensionError);
  expect(failure).toMatchObject({
    code: "setup-failed",
    owner: "half.ts",
    message: "The extension half.ts could not be set up: api.registerTool is not a function",
    cause: expect.any(TypeError),
  });
  expect(host.has(told)).toBe(false);
});

it("a setup that never ends is abandoned after 10 seconds; a later error of it is a report", async () => {
  const { clock, advance } = createManualClock();
  const { host, reports } = createTestHost(clock);
  let fail = (_: Error) => {};
  const registering = host
    .register("slow.ts", (api) => {
      api.on("told", () => {});
      return new Promise<void>((_, reject) => {
        fail = reject;
      });
    })
    .catch((error) => error);
  expect(host.has(told)).toBe(true);
  await advance(10_000);
  expect(await registering).toMatchObject({ code: "setup-failed", owner: "slow.ts" });
  expect(host.has(told)).toBe(false);
  fail(new Error("too late"));
  await settle();
  expect(reports).toMatchObject([{ kind: "late-rejection", owners: ["slow.ts"], hook: null }]);
});

it.each([
  ["no function", "handler", {}],
  ["a priority that is not a number", () => {}, { priority: Number.NaN }],
  ["no time", () => {}, { timeoutMs: 0 }],
  ["all the time", () => {}, { timeoutMs: Number.POSITIVE_INFINITY }],
  ["a limit longer than a timer accepts", () => {}, { timeoutMs: 2 ** 31 }],
])("a handler with %s is refused at its registration", async (_, handler, options) => {
  const { host } = createTestHost();
  await host.register("a", (api) => {
    expect(() => api.on("told", handler as () => void, options)).toThrow(
      expect.objectContaining({ code: "bad-handler", owner: "a" }),
    );
  });
  expect(host.has(told)).toBe(false);
});

it("a hook outside of the host's list cannot be run", async () => {
  const host = createExtensionHost({ hooks: {} });
  await expect(host.notify(told, { words: [] }, {})).rejects.toMatchObject({ code: "unknown-hook" });
});

it("a host without onReport works, and nothing is printed", async () => {
  const host = createExtensionHost({ hooks: { told } });
  await host.register("a", (api) => void api.on("told", () => Promise.reject(new Error("x"))));
  await expect(host.notify(told, { words: [] }, {})).resolves.toBeUndefined();
});

it("names, events, answers and contexts are typed by the hooks", async () => {
  const { host } = createTestHost();
  await host.register("a", (api) => {
    api.on("told", (event, ctx) => {
      expectTypeOf(event.words).toEqualTypeOf<string[]>();
      expectTypeOf(event.type).toEqualTypeOf<"told">();
      expectTypeOf(ctx.cwd).toEqualTypeOf<string>();
      // @ts-expect-error: an event cannot be changed
      expect(() => (event.words = [])).toThrow();
    });
    api.on("heard", (event) => {
      expectTypeOf(event.count).toEqualTypeOf<number>();
    });
    // @ts-expect-error: no such hook
    api.on("tolled", () => {});
    // @ts-expect-error: no such field
    api.on("planned", () => ({ instruction: "x" }));
    // @ts-expect-error: the alias has another name for it
    api.on("foreseen", () => ({ instructions: "x" }));
    // @ts-expect-error: not what the hook is about
    api.on("letter", () => ({ letter: { lines: "x" } }));
  });
  await host.notify(told, { words: [], kind: "inside" }, context);
  // @ts-expect-error: a payload without its words
  await host.notify(told, {}, context);
  // @ts-expect-error: a context without its folder
  await host.notify(told, { words: [] }, {});
});

it("a handler that was removed is not kept in memory while its extension stays", async () => {
  const { host } = createTestHost();
  let api!: { on(name: "told", handler: () => void): () => void };
  const remove = await host.register("a", (given) => {
    api = given;
  });
  const collect = collector();
  const handlers = Array.from({ length: 20 }, () => {
    const handler = () => {};
    api.on("told", handler)();
    return new WeakRef(handler);
  });
  await settle();
  collect();
  expect(handlers.filter((handler) => handler.deref() !== undefined).length).toBeLessThan(5);
  remove();
});

/** Returns the function that collects garbage. */
function collector(): () => void {
  setFlagsFromString("--expose-gc");
  return runInNewContext("gc") as () => void;
}
