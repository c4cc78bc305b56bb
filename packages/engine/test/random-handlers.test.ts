import { type Extension, engineHooks } from "@espalier/engine";
import type { ExtensionReport } from "@espalier/extensions";
import { custom } from "@espalier/session-tree";
import { scriptedSummarizer } from "@espalier/summarizer/testing";
import fc from "fast-check";
import { test } from "vitest";
import { billed, expectSameWhenReopened, plant, soundAnswer, turn } from "./build-session.ts";

const HOOKS = Object.keys(engineHooks) as (keyof typeof engineHooks)[];

const pause = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds));

/** Fields that answers of hooks have, with values of any type: most answers are wrong somewhere. */
const answer = fc.record(
  {
    cancel: fc.oneof(fc.constant(true), fc.jsonValue()),
    reason: fc.oneof(fc.string(), fc.jsonValue()),
    instructions: fc.oneof(fc.string(), fc.jsonValue()),
    customInstructions: fc.oneof(fc.string(), fc.jsonValue()),
    label: fc.oneof(fc.string(), fc.jsonValue()),
    summary: fc.oneof(fc.string(), fc.jsonValue()),
    compaction: fc.oneof(
      fc.record({ summary: fc.string(), details: fc.jsonValue() }, { requiredKeys: [] }),
      fc.jsonValue(),
    ),
    entry: fc.jsonValue(),
    entries: fc.oneof(fc.array(fc.jsonValue()), fc.jsonValue()),
    messages: fc.oneof(fc.array(fc.jsonValue()), fc.jsonValue()),
  },
  { requiredKeys: [] },
);

const deed = fc.oneof(
  fc.record({ does: fc.constant("answer" as const), value: answer }),
  fc.record({
    does: fc.constant("garbage" as const),
    value: fc.anything({ withBigInt: true, withMap: true }),
  }),
  fc.record({
    does: fc.constantFrom(
      "throw",
      "reject",
      "late",
      "never",
      "append",
      "state",
      "compact",
      "name",
      "change",
      "delete",
    ),
    value: fc.constant(undefined),
  }),
);

const handler = fc.record({ hook: fc.constantFrom(...HOOKS), deed, critical: fc.boolean() });

type RandomHandler = typeof handler extends fc.Arbitrary<infer Made> ? Made : never;

/** Makes an extension of the handlers. Each does its deed a few times, so that an endless chain ends. */
function extensionOf(handlers: readonly RandomHandler[], isArmed: () => boolean): Extension {
  return (api) => {
    for (const {
      hook,
      deed: { does, value },
      critical,
    } of handlers) {
      let left = 4;
      const act = async (event: Record<string, unknown>, ctx: { compact(): void }): Promise<unknown> => {
        if (left-- <= 0) return undefined;
        if (does === "answer" || does === "garbage") return value;
        if (does === "reject") throw new Error("rejected");
        if (does === "late") await pause(15).then(() => Promise.reject(new Error("late")));
        if (does === "never") await new Promise(() => {});
        if (does === "append") api.appendEntry("mine", { n: left });
        if (does === "state")
          await api
            .state("kept", { initial: 0 })
            .append(left)
            .catch(() => {});
        if (does === "compact") ctx.compact();
        if (does === "name") api.setSessionName(`name ${left}`);
        if (does === "change" || does === "delete")
          for (const key of Object.keys(event))
            try {
              const part = event[key] as Record<string, unknown>;
              for (const inner of [...Object.keys(part ?? {}), "0"]) {
                if (does === "delete") delete part[inner];
                else part[inner] = null;
              }
            } catch {
              // Most parts are frozen.
            }
        return undefined;
      };
      const listener = (event: unknown, ctx: unknown): unknown => {
        if (!isArmed()) return undefined;
        if (does === "throw" && left-- > 0) throw value ?? new Error("thrown");
        return act(event as Record<string, unknown>, ctx as { compact(): void });
      };
      (api.on as (name: string, run: unknown, options: object) => void)(hook, listener, {
        critical,
        timeoutMs: 8,
      });
    }
  };
}

const ACTS = [
  "say",
  "append",
  "custom",
  "compact",
  "automatic",
  "navigate",
  "summary",
  "fork",
  "merge",
  "undo",
  "label",
  "request",
] as const;

test("property: whatever handlers do, each act ends, is done or refused with its name, and the log stays sound", {
  timeout: 300_000,
}, async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(handler, { minLength: 1, maxLength: 6 }),
      fc.array(fc.record({ does: fc.constantFrom(...ACTS), at: fc.nat(99) }), {
        minLength: 2,
        maxLength: 10,
      }),
      async (handlers, steps) => {
        const reports: ExtensionReport[] = [];
        let armed = false;
        const summarizer = scriptedSummarizer(async (request) => ({
          text: soundAnswer(request),
          usage: billed(1),
        }));
        const { session, store } = await plant({
          turns: 3,
          summarizer,
          onReport: (report) => reports.push(report),
          log: { warn: () => {}, error: () => {} },
          extensions: [(api) => extensionOf(handlers, () => armed)(api)],
        });
        armed = true;
        const settings = { keepRecentTokens: 60 };
        const idAt = (at: number) => session.getEntries().at(at % session.getEntries().length)!.id;
        const acts: Record<(typeof ACTS)[number], (at: number) => Promise<unknown>> = {
          say: (at) => session.say(`Said ${at}`),
          append: (at) => session.appendMessages(turn(`${at}`)),
          custom: (at) => session.append(custom.of({ customType: "test", data: at })),
          compact: () => session.compact({ settings }),
          automatic: () => session.compact({ reason: "threshold", settings }),
          navigate: (at) => session.navigate(idAt(at)),
          summary: (at) => session.navigate(idAt(at), { summarize: true }),
          fork: (at) => session.fork(idAt(at)),
          merge: (at) => session.merge(idAt(at)),
          undo: () => session.undo(),
          label: (at) => session.label(idAt(at), "there"),
          request: () => session.prepareRequest(),
        };
        for (const { does, at } of steps) {
          const error = await acts[does](at).then(
            () => undefined,
            (caught: unknown) => caught as { code?: unknown },
          );
          if (error && typeof error.code !== "string") throw error;
        }
        await session.close();
        await expectSameWhenReopened(session, store);
      },
    ),
    { numRuns: 100 },
  );
});
