import {
  createExtensionHost,
  decideHook,
  deepFreeze,
  type HandlerOptions,
  notifyHook,
} from "@espalier/extensions";
import fc from "fast-check";
import { expect, it } from "vitest";

const ring = notifyHook<object>("ring");
interface Wishes {
  one: number;
  text: string;
  flag: boolean;
}
const wish = decideHook<object, Wishes>("wish", {
  fields: { one: "one", text: "join", flag: "any" },
  validate: ({ one }) => (one !== undefined && one < 0 ? "it is negative" : undefined),
});

const registrations = fc.array(
  fc.record({
    priority: fc.option(fc.integer({ min: -2, max: 2 }), { nil: undefined }),
    delay: fc.boolean(),
    removed: fc.boolean(),
    answer: fc.oneof(
      fc.constant(undefined),
      fc.constant("throws" as const),
      fc.record(
        { one: fc.integer({ min: -1, max: 3 }), text: fc.constantFrom("", "a", "b"), flag: fc.boolean() },
        { requiredKeys: [] },
      ),
    ),
  }),
  { maxLength: 8 },
);
const options = (priority: number | undefined): HandlerOptions =>
  priority === undefined ? {} : { priority };

it("handlers are called by priority, then in the order of registration, for any durations", () =>
  fc.assert(
    fc.asyncProperty(registrations, async (list) => {
      const host = createExtensionHost({ hooks: { ring } });
      const order: number[] = [];
      await host.register("a", (api) => {
        const removers = list.map(({ priority, delay }, index) =>
          api.on(
            "ring",
            async () => {
              if (delay) await new Promise((resolve) => setImmediate(resolve));
              order.push(index);
            },
            options(priority),
          ),
        );
        for (const [index, { removed }] of list.entries()) if (removed) removers[index]?.();
      });
      await host.notify(ring, {}, {});
      const expected = list
        .map((one, index) => ({ ...one, index }))
        .filter((one) => !one.removed)
        .sort((a, b) => (b.priority ?? 0) - (a.priority ?? 0) || a.index - b.index);
      expect(order).toEqual(expected.map((one) => one.index));
    }),
  ));

it("the same handlers always give the same decision, by the rules of the fields", () =>
  fc.assert(
    fc.asyncProperty(registrations, async (list) => {
      const decide = async () => {
        const host = createExtensionHost({ hooks: { wish } });
        for (const [index, { priority, delay, answer }] of list.entries()) {
          await host.register(`${index}`, (api) => {
            api.on(
              "wish",
              async () => {
                if (delay) await new Promise((resolve) => setImmediate(resolve));
                if (answer === "throws") throw new Error("no wish");
                return answer;
              },
              options(priority),
            );
          });
        }
        return host.decide(wish, {}, {});
      };
      const decision = await decide();
      expect(await decide()).toEqual(decision);

      const valid = list
        .map(({ priority = 0, answer }, index) => ({ priority, answer, owner: `${index}` }))
        .sort((a, b) => b.priority - a.priority)
        .flatMap(({ answer, owner }) => (typeof answer === "object" ? [{ owner, ...answer }] : []))
        .filter(({ one = 0 }) => one >= 0);
      const having = (field: keyof Wishes) =>
        valid.filter((one) => one[field] !== undefined && one[field] !== "");
      const expected: Partial<Wishes> = {};
      const [first, ...others] = having("one");
      if (first?.one !== undefined) expected.one = first.one;
      if (having("text").length > 0)
        expected.text = having("text")
          .map((one) => one.text)
          .join("\n\n");
      if (having("flag").length > 0) expected.flag = having("flag").some((one) => one.flag);
      expect(decision.answer).toEqual(expected);
      expect(decision.owners.text ?? []).toEqual(having("text").map((one) => one.owner));
      expect(decision.reports.filter(({ kind }) => kind === "conflict").map(({ owners }) => owners)).toEqual(
        others.map(({ owner }) => [first?.owner, owner]),
      );
    }),
  ));

it("freezing reaches every plain object and array, and changes no value", () => {
  fc.assert(
    fc.property(
      fc.object({ withSet: true, withMap: true, withDate: true, withNullPrototype: true }),
      (value) => {
        const before = structuredClone(value);
        const open: unknown[] = [deepFreeze(value)];
        expect(structuredClone(value)).toEqual(before);
        while (open.length > 0) {
          const next = open.pop();
          if (typeof next !== "object" || next === null) continue;
          const plain =
            Array.isArray(next) || !(next instanceof Set || next instanceof Map || next instanceof Date);
          expect(Object.isFrozen(next)).toBe(plain);
          if (plain) open.push(...Object.values(next));
        }
      },
    ),
  );
});

it("freezing a chain of 100,000 objects and a circle does not overflow", () => {
  interface Link {
    next?: Link;
  }
  const first: Link = {};
  let last = first;
  for (let depth = 0; depth < 100_000; depth++) {
    last.next = {};
    last = last.next;
  }
  last.next = first;
  deepFreeze(first);
  expect(Object.isFrozen(last)).toBe(true);
});

it("freezing calls no getters and does not freeze instances, buffers and signals", () => {
  class Counter {
    count = 0;
  }
  const value = {
    get costly(): never {
      throw new Error("called");
    },
    counter: new Counter(),
    bytes: new Uint8Array(3),
    signal: new AbortController().signal,
  };
  deepFreeze(value);
  value.counter.count++;
  value.bytes[0] = 1;
  expect([value.counter.count, value.bytes[0], Object.isFrozen(value.signal)]).toEqual([1, 1, false]);
});

it("a partly frozen value does not count as frozen", () => {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  const value = { inner: { open: true }, proxy };
  expect(() => deepFreeze(value)).toThrow(TypeError);
  expect(() => deepFreeze(value)).toThrow(TypeError);
});
