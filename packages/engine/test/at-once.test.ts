import { openSession, POLICY_NAMES } from "@espalier/engine";
import { scriptedSummarizer } from "@espalier/summarizer/testing";
import fc from "fast-check";
import { expect, test } from "vitest";
import { billed, listen, plant, soundAnswer, turn } from "./build-session.ts";

/** Limits that a session of some turns exceeds under every policy. */
const POLICY_SETTINGS = {
  tailKeepSize: 3,
  contextSize: 8,
  compressionWindowSize: 2,
  keepLast: 3,
  maxMessages: 12,
  maxContextTokens: 900,
  preserveCount: 2,
};

const pause = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds));

/** A session whose summaries and handlers take their time. */
async function slowSession(policy: (typeof POLICY_NAMES)[number]) {
  const { heard, extension } = listen();
  const summarizer = scriptedSummarizer(async (request, n) => {
    await pause(n % 7);
    return { text: soundAnswer(request), usage: billed(1) };
  });
  const { session, store } = await plant({
    summarizer,
    policy,
    policySettings: POLICY_SETTINGS,
    log: { warn: () => {}, error: () => {} },
    extensions: [
      extension,
      (api) => {
        api.on("entry_before_append", () => pause(1));
        api.on("entry_appended", () => pause(1));
      },
    ],
  });
  const abort = new AbortController();
  const { signal } = abort;
  const settings = { keepRecentTokens: 60 };
  const idAt = (at: number) => session.getEntries().at(at % session.getEntries().length)!.id;
  const acts = {
    append: (at: number) => session.appendMessages(turn(`${at}`)),
    compact: () => session.compact({ settings }),
    "compact, if nobody minds": () => session.compact({ settings, signal }),
    "compact by itself": () => session.compact({ reason: "threshold" }),
    abort: async () => abort.abort(),
    navigate: (at: number) => session.navigate(idAt(at)),
    "navigate with a summary": (at: number) => session.navigate(idAt(at), { summarize: true, label: "here" }),
    merge: (at: number) => session.merge(idAt(at)),
    fork: (at: number) => session.fork(idAt(at), { summarize: true }),
    undo: () => session.undo(),
    hide: (at: number) => session.hide(idAt(at), at % 2 === 0),
    pin: (at: number) => session.pin(idAt(at)),
    label: (at: number) => session.label(idAt(at), "there"),
    "prepare a request": () => session.prepareRequest(),
  } satisfies Record<string, (at: number) => Promise<unknown>>;
  return { session, store, heard, acts };
}

const names = [
  "append",
  "compact",
  "compact, if nobody minds",
  "compact by itself",
  "abort",
  "navigate",
  "navigate with a summary",
  "merge",
  "fork",
  "undo",
  "hide",
  "pin",
  "label",
  "prepare a request",
] as const;

test("property: of simultaneous acts each is done or refused with its name, and reopening gives the closed state", async () => {
  const step = fc.record({ does: fc.constantFrom(...names), at: fc.nat(99), wait: fc.nat(6) });
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 5, maxLength: 25 }),
      fc.constantFrom(...POLICY_NAMES),
      async (steps, policy) => {
        const { session, store, heard, acts } = await slowSession(policy);
        const ends: Promise<unknown>[] = [];
        for (const { does, at, wait } of steps) {
          ends.push(
            acts[does](at).catch((error: { code?: unknown }) =>
              expect(error.code).toEqual(expect.any(String)),
            ),
          );
          if (wait > 2) await pause(wait);
        }
        await Promise.all(ends);
        await session.close();
        expect(heard.committed.length + heard.failed.length).toBe(heard.before);
        const again = await openSession({ file: session.file }, { store, mode: "read" });
        expect(again.leafId).toBe(session.leafId);
        expect(again.context).toEqual(session.context);
        expect(again.diagnose().issues).toEqual([]);
        expect([...again.replay({ verify: true })].every(({ verified }) => verified)).toBe(true);
        await again.close();
      },
    ),
    { numRuns: 50 },
  );
});
