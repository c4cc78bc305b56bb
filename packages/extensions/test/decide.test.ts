import { expect, it } from "vitest";
import { context, createTestHost, type Plan, planned } from "./test-host.ts";

const plan: Plan = { size: 10 };
const nothing = { answer: {}, owners: {}, cancelled: null, aborted: false, reports: [] };

it("without handlers there is no decision", async () => {
  const { host } = createTestHost();
  expect(await host.decide(planned, plan, context)).toEqual(nothing);
});

it.each([
  [undefined],
  [null],
  [{}],
  [{ cancel: false }],
  [{ replacement: undefined, instructions: null }],
  [{ instructions: "" }],
])("an empty answer is neutral: %o", async (answer) => {
  const { host } = createTestHost();
  await host.register("full", (api) => void api.on("planned", () => ({ replacement: { text: "short" } })));
  await host.register("empty", (api) => void api.on("planned", () => answer as never));
  const { answer: decided, reports } = await host.decide(planned, plan, context);
  expect(decided).toEqual({ replacement: { text: "short" } });
  expect(reports).toEqual([]);
});

it("answers are merged by field, and the decision names the owner of each field", async () => {
  const { host, reports } = createTestHost();
  await host.register(
    "a",
    (api) => void api.on("planned", () => ({ instructions: "Be brief.", replace: false })),
  );
  await host.register(
    "b",
    (api) =>
      void api.on("planned", async () => ({ instructions: "Name files.", replace: true, label: "tries" })),
  );
  await host.register("c", (api) => void api.on("planned", () => ({ replacement: { text: "short" } })));
  expect(await host.decide(planned, plan, context)).toEqual({
    ...nothing,
    answer: {
      instructions: "Be brief.\n\nName files.",
      replace: true,
      label: "tries",
      replacement: { text: "short" },
    },
    owners: { instructions: ["a", "b"], replace: ["a", "b"], label: ["b"], replacement: ["c"] },
  });
  expect(reports).toEqual([]);
});

it("of two answers to one field the first is used, and the second is reported with both owners", async () => {
  const { host, reports } = createTestHost();
  await host.register("a", (api) => void api.on("planned", () => ({ replacement: { text: "of a" } })));
  await host.register(
    "b",
    (api) => void api.on("planned", () => ({ replacement: { text: "of b" }, instructions: "stays" })),
  );
  const decision = await host.decide(planned, plan, context);
  expect(decision.answer).toEqual({ replacement: { text: "of a" }, instructions: "stays" });
  expect(decision.owners).toEqual({ replacement: ["a"], instructions: ["b"] });
  expect(reports).toMatchObject([{ kind: "conflict", owners: ["a", "b"], hook: "planned" }]);
  expect(reports[0]?.message).toBe(
    'a and b both answered planned with "replacement"; the answer of a is used.',
  );
  expect(decision.reports).toEqual(reports);
});

it("an answer that the hook finds invalid is refused with its owner's name, and the next one is used", async () => {
  const { host, reports } = createTestHost();
  await host.register(
    "wordy",
    (api) => void api.on("planned", () => ({ replacement: { text: "far too long" }, instructions: "lost" })),
  );
  await host.register("b", (api) => void api.on("planned", () => ({ replacement: { text: "of b" } })));
  const decision = await host.decide(planned, plan, context);
  expect(decision.answer).toEqual({ replacement: { text: "of b" } });
  expect(reports).toMatchObject([{ kind: "invalid-answer", owners: ["wordy"], hook: "planned" }]);
  expect(reports[0]?.message).toBe("The answer of wordy to planned was refused: its text is longer than 10.");
});

it.each([
  ["a string", "yes", "it is a string, not an object."],
  ["an array", [{ cancel: true }], "it is an array, not an object."],
  ["a number", 3, "it is a number, not an object."],
  [
    "a cancel that is neither true nor false",
    { cancel: "yes" },
    '"cancel" must be true or false, not a string.',
  ],
  ["joined text that is not a string", { instructions: 3 }, '"instructions" must be a string.'],
  ["a choice that is not allowed", { replace: "yes" }, '"replace" must be a boolean.'],
  ["a value that is not data", { label: () => "x" }, '() => "x" could not be cloned.'],
  [
    "a getter that throws",
    {
      get label(): string {
        throw new Error("not today");
      },
    },
    "not today",
  ],
])("%s is refused", async (_, answer, reason) => {
  const { host, reports } = createTestHost();
  await host.register("odd", (api) => void api.on("planned", () => answer as never));
  const decision = await host.decide(planned, plan, context);
  expect(decision).toMatchObject({ answer: {}, cancelled: null });
  expect(reports).toMatchObject([{ kind: "invalid-answer", owners: ["odd"] }]);
  expect(reports[0]?.message).toBe(`The answer of odd to planned was refused: ${reason}`);
});

it("an unknown field is reported and left out; the rest of the answer is used", async () => {
  const { host, reports } = createTestHost();
  await host.register(
    "typo",
    (api) => void api.on("planned", () => ({ instructionz: "x", toString: "y", label: "kept" }) as never),
  );
  const decision = await host.decide(planned, plan, context);
  expect(decision.answer).toEqual({ label: "kept" });
  expect(reports.map((report) => report.kind)).toEqual(["invalid-answer", "invalid-answer"]);
  expect(reports[0]?.message).toContain('"instructionz", which is not one of replacement, instructions');
});

it("the report of an unknown field names every possible one, the cancellation too", async () => {
  const { host, reports } = createTestHost();
  await host.register("typo", (api) => void api.on("planned", () => ({ cancle: true }) as never));
  await host.decide(planned, plan, context);
  const [, names] = /which is not one of (.*);/.exec(reports[0]!.message)!;
  expect(names?.split(", ")).toEqual([...Object.keys(planned.fields), "cancel", "reason"]);
});

it("any cancellation wins over other answers, and all handlers still run", async () => {
  const { host, reports } = createTestHost();
  const asked: string[] = [];
  await host.register("a", (api) => void api.on("planned", () => ({ replacement: { text: "of a" } })));
  await host.register(
    "b",
    (api) => void api.on("planned", () => ({ cancel: true, reason: "a call is open" })),
  );
  await host.register(
    "c",
    (api) =>
      void api.on("planned", () => {
        asked.push("c");
        return { cancel: true, reason: "later", replacement: { text: "of c" } };
      }),
  );
  await host.register(
    "d",
    (api) =>
      void api.on("planned", () => {
        asked.push("d");
        throw new Error("seen although b cancelled");
      }),
  );
  const decision = await host.decide(planned, plan, context);
  expect(decision).toMatchObject({
    answer: {},
    owners: {},
    cancelled: { by: "b", reason: "a call is open" },
  });
  expect(asked).toEqual(["c", "d"]);
  expect(reports).toMatchObject([{ kind: "threw", owners: ["d"] }]);
});

it("a cancellation applies even if another field of the answer is invalid", async () => {
  const { host, reports } = createTestHost();
  await host.register(
    "a",
    (api) => void api.on("planned", () => ({ cancel: true, instructions: 3 }) as never),
  );
  expect((await host.decide(planned, plan, context)).cancelled).toEqual({ by: "a", reason: null });
  expect(reports).toEqual([]);
});

it("a handler that throws is skipped; a critical one cancels", async () => {
  for (const critical of [false, true]) {
    const { host, reports } = createTestHost();
    await host.register(
      "guard",
      (api) => void api.on("planned", () => Promise.reject(new Error("cannot look")), { critical }),
    );
    await host.register("b", (api) => void api.on("planned", () => ({ label: "of b" })));
    const decision = await host.decide(planned, plan, context);
    expect(reports).toMatchObject([{ kind: "threw", owners: ["guard"] }]);
    expect(decision.cancelled).toEqual(
      critical ? { by: "guard", reason: "guard failed in planned: cannot look" } : null,
    );
    expect(decision.answer).toEqual(critical ? {} : { label: "of b" });
  }
});

it("the validated answer is used, even if its owner changes it later", async () => {
  const { host } = createTestHost();
  const kept = { text: "short", details: { list: [1] } };
  await host.register("a", (api) => void api.on("planned", () => ({ replacement: kept })));
  const { answer } = await host.decide(planned, plan, context);
  kept.text = "far too long for the hook";
  kept.details.list.push(2);
  expect(answer).toEqual({ replacement: { text: "short", details: { list: [1] } } });
});

it("an abort ends the run without an answer; if it came first, no handler is called", async () => {
  const { host } = createTestHost();
  const controller = new AbortController();
  const asked: string[] = [];
  await host.register("a", (api) => void api.on("planned", () => ({ label: "of a" })));
  await host.register(
    "hangs",
    (api) =>
      void api.on("planned", () => {
        asked.push("hangs");
        return new Promise<void>(() => {});
      }),
  );
  await host.register("c", (api) => void api.on("planned", () => void asked.push("c")));
  const signal = controller.signal;
  const deciding = host.decide(planned, { ...plan, signal }, { ...context, signal });
  setImmediate(() => controller.abort());
  expect(await deciding).toEqual({ ...nothing, aborted: true });
  expect(asked).toEqual(["hangs"]);
  expect(await host.decide(planned, plan, { ...context, signal })).toEqual({ ...nothing, aborted: true });
  expect(asked).toEqual(["hangs"]);
});
