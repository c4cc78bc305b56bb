import { createExtensionHost, transformHook } from "@espalier/extensions";
import { expect, it } from "vitest";
import { context, createTestHost, type Letter, letter } from "./test-host.ts";

const written = (): Letter => ({ lines: [{ text: "one" }, { text: "two" }], tags: new Set(["t"]) });

it("a handler changes a draft; the caller's value stays unchanged, and the result is frozen", async () => {
  const { host } = createTestHost();
  await host.register(
    "a",
    (api) =>
      void api.on("letter", (event) => {
        event.letter.lines[0]!.text = "changed";
        event.letter.tags?.add("u");
      }),
  );
  const before = written();
  const after = await host.transform(letter, before, context);
  expect(after).toEqual({ lines: [{ text: "changed" }, { text: "two" }], tags: new Set(["t", "u"]) });
  expect(before).toEqual(written());
  expect(Object.isFrozen(after) && Object.isFrozen(after.lines[0])).toBe(true);
});

it("unchanged parts are shared with the caller's value", async () => {
  const { host } = createTestHost();
  await host.register(
    "a",
    (api) =>
      void api.on("letter", (event) => {
        event.letter.lines[0]!.text = "changed";
      }),
  );
  const before = written();
  const after = await host.transform(letter, before, context);
  expect(after.lines[1]).toBe(before.lines[1]);
});

it("a handler that changes nothing returns the same object", async () => {
  const { host } = createTestHost();
  await host.register("a", (api) => void api.on("letter", () => {}));
  const before = written();
  expect(await host.transform(letter, before, context)).toBe(before);
});

it("without a handler, the same unfrozen value is returned", async () => {
  const { host } = createTestHost();
  const before = written();
  expect(await host.transform(letter, before, context)).toBe(before);
  expect(Object.isFrozen(before)).toBe(false);
});

it("each handler gets the result of the previous one", async () => {
  const { host } = createTestHost();
  for (const word of ["b", "c"]) {
    await host.register(
      word,
      (api) => void api.on("letter", (event) => void event.letter.lines.push({ text: word })),
    );
  }
  const after = await host.transform(letter, { lines: [{ text: "a" }] }, context);
  expect(after.lines.map((line) => line.text).join("")).toBe("abc");
});

it("a handler can assign to the event, or answer with another value that contains parts of the draft", async () => {
  const { host, reports } = createTestHost();
  await host.register(
    "assigns",
    (api) =>
      void api.on("letter", (event) => {
        event.letter = { lines: event.letter.lines.filter((line) => line.text !== "one") };
      }),
  );
  await host.register(
    "answers",
    (api) =>
      void api.on("letter", async (event) => ({
        letter: { lines: event.letter.lines.map((line) => ({ ...line, text: line.text.toUpperCase() })) },
      })),
  );
  expect(await host.transform(letter, written(), context)).toEqual({ lines: [{ text: "TWO" }] });
  expect(reports).toEqual([]);
});

it("the changes of a handler that throws are dropped", async () => {
  const { host, reports } = createTestHost();
  await host.register(
    "a",
    (api) =>
      void api.on("letter", (event) => {
        event.letter.lines.length = 0;
        throw new Error("half way");
      }),
  );
  await host.register(
    "b",
    (api) => void api.on("letter", (event) => void event.letter.lines.push({ text: "b" })),
  );
  const after = await host.transform(letter, written(), context);
  expect(after.lines.map((line) => line.text)).toEqual(["one", "two", "b"]);
  expect(reports).toMatchObject([{ kind: "threw", owners: ["a"], hook: "letter" }]);
});

it("a change that the hook finds invalid is refused with its owner's name", async () => {
  const { host, reports } = createTestHost();
  await host.register("vandal", (api) => void api.on("letter", () => ({ letter: {} as Letter })));
  const before = written();
  expect(await host.transform(letter, before, context)).toBe(before);
  expect(reports).toMatchObject([{ kind: "invalid-answer", owners: ["vandal"] }]);
  expect(reports[0]?.message).toContain("a letter needs its lines.");
});

it("a critical handler that fails or is refused stops the caller, since it has not checked the value", async () => {
  for (const handler of [() => Promise.reject(new Error("broken")), () => ({ letter: {} as Letter })]) {
    const { host, reports } = createTestHost();
    await host.register("redactor", (api) => void api.on("letter", handler, { critical: true }));
    await expect(host.transform(letter, written(), context)).rejects.toMatchObject({
      code: "critical-handler-failed",
      owner: "redactor",
    });
    expect(reports).toHaveLength(1);
  }
});

it("an abort is an error, since a handler may not have checked the value", async () => {
  const { host } = createTestHost();
  const controller = new AbortController();
  await host.register("a", (api) => void api.on("letter", () => new Promise<void>(() => {})));
  const done = host.transform(letter, written(), { ...context, signal: controller.signal });
  setImmediate(() => controller.abort("enough"));
  await expect(done).rejects.toMatchObject({ code: "aborted", cause: "enough" });
  await expect(
    host.transform(letter, written(), { ...context, signal: controller.signal }),
  ).rejects.toMatchObject({ code: "aborted" });
});

it("an answer without the field is refused, unless the draft was changed and the answer is a side effect", async () => {
  const { host, reports } = createTestHost();
  await host.register("wrong", (api) => void api.on("letter", (() => ({ lines: [] })) as never));
  await host.register(
    "arrow",
    (api) =>
      void api.on(
        "letter",
        ((event: { letter: Letter }) => (event.letter.lines[0] = { text: "new" })) as never,
      ),
  );
  await host.register(
    "counts",
    (api) => void api.on("letter", ((event: { letter: Letter }) => event.letter.lines.length) as never),
  );
  const after = await host.transform(letter, written(), context);
  expect(after.lines[0]?.text).toBe("new");
  expect(reports).toMatchObject([{ kind: "invalid-answer", owners: ["wrong"] }]);
  expect(reports[0]?.message).toBe('The answer of wrong to letter was refused: it has no "letter".');
});

it("an answer with a draft at an unreachable position is refused, and the value stays unchanged", async () => {
  const { host, reports } = createTestHost();
  await host.register(
    "a",
    (api) =>
      void api.on("letter", (event) => ({ letter: Object.freeze({ lines: [event.letter.lines[0]!] }) })),
  );
  const before = written();
  expect(await host.transform(letter, before, context)).toBe(before);
  expect(reports).toMatchObject([{ kind: "invalid-answer", owners: ["a"] }]);
});

it("a value can be other than an object", async () => {
  const title = transformHook<string, "title">("title", { field: "title" });
  const host = createExtensionHost({ hooks: { title } });
  await host.register(
    "a",
    (api) =>
      void api.on("title", (event) => {
        event.title = event.title.toUpperCase();
      }),
  );
  await host.register("b", (api) => void api.on("title", (event) => ({ title: `${event.title}!` })));
  expect(await host.transform(title, "hello", {})).toBe("HELLO!");
});

it("a value 100,000 levels deep passes", async () => {
  const { host, reports } = createTestHost();
  await host.register(
    "a",
    (api) => void api.on("letter", (event) => void event.letter.lines.push({ text: "b" })),
  );
  let deep: object = {};
  for (let level = 0; level < 100_000; level++) deep = { deep };
  const after = await host.transform(letter, { lines: [], ...{ deep } }, context);
  expect(after.lines).toHaveLength(1);
  expect(reports).toEqual([]);
});
