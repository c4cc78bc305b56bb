import { openSession, POLICY_NAMES, type Session } from "@espalier/engine";
import { isMessage, messageText } from "@espalier/session-tree";
import { scriptedSummarizer } from "@espalier/summarizer/testing";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { billed, expectSameWhenReopened, listen, plant, soundAnswer, turn } from "./build-session.ts";

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
        await expectSameWhenReopened(session, store);
      },
    ),
    { numRuns: 50 },
  );
});

describe("acts that are not awaited one by one", () => {
  const prompts = (session: Session) =>
    session.getBranch().flatMap((entry) => (isMessage(entry, "user") ? [messageText(entry.message)] : []));

  test("two undos take back two actions, and two redos repeat both", async () => {
    const { session } = await plant();
    const before = session.leafId;
    const undone = await Promise.all([session.undo(), session.undo()]);
    expect(undone.map(({ editorText }) => editorText?.slice(0, 11))).toEqual(["Question 4.", "Question 3."]);
    expect(prompts(session)).toHaveLength(2);
    const redone = await Promise.all([session.redo(), session.redo()]);
    expect(redone.map(({ act }) => act.text.slice(0, 11))).toEqual(["Question 3.", "Question 4."]);
    expect(session.leafId).toBe(before);
  });

  test("an undo takes back the prompt whose append is under way, and refuses it when another was expected", async () => {
    const { session } = await plant();
    const expected = session.getBranch().findLast((entry) => isMessage(entry, "user"))!.id;
    const said = session.say("One more.");
    const refused = session.undo({ expected }).catch((error: unknown) => error);
    expect(await refused).toMatchObject({ code: "stale" });
    expect((await said).parentId).not.toBeNull();
    const again = session.say("And another.");
    expect(await session.undo()).toMatchObject({ editorText: "And another." });
    await again;
    expect(prompts(session).at(-1)).toBe("One more.");
  });

  test("labels, names, pins, edits, undos and messages are written in the order of their calls", async () => {
    const { session } = await plant();
    const length = session.getEntries().length;
    const id = session.leafId!;
    await Promise.all([
      session.label(id, "here"),
      session.rename("Garden"),
      session.pin(id),
      session.appendMessages([{ role: "user", content: "Go on." }]),
      session.hide(id),
      session.undo(),
      session.rename("Orchard"),
    ]);
    const types = session.getEntries().map(({ type }) => type);
    expect(types.slice(length)).toEqual([
      ...["label", "session_info", "custom", "message", "context_edit", "leaf", "session_info"],
    ]);
  });

  test("the last of two navigations decides where the leaf is", async () => {
    const { session } = await plant();
    const [here, there] = [session.leafId!, session.getBranch().at(-5)!.id];
    const [, back] = await Promise.all([session.navigate(there), session.navigate(here)]);
    expect([session.leafId, back.leafId]).toEqual([here, here]);
  });

  test("hiding an entry twice writes one edit, and one undo restores it", async () => {
    const { session } = await plant();
    const [first] = session.getBranch();
    const [edit, none] = await Promise.all([session.hide(first!.id), session.hide(first!.id)]);
    expect([edit, none]).toEqual([expect.any(String), null]);
    await session.undo();
    expect(session.context.sources).toContain(first!.id);
  });

  test("a prompt that is said twice with one id is one entry", async () => {
    const { session } = await plant();
    const [once, twice] = await Promise.all(["a", "b"].map(() => session.say("Once.", { id: "request-1" })));
    expect(twice).toEqual(once);
    expect(prompts(session).filter((text) => text === "Once.")).toHaveLength(1);
  });

  test("a prompt that is said again after reopening, on a branch that was left, is the same entry", async () => {
    const { session, store } = await plant();
    const once = await session.say("Once.", { id: "request-1" });
    await session.navigate(null);
    await session.say("Elsewhere.");
    await session.close();
    const again = await openSession({ file: session.file }, { store, whole: false });
    expect(await again.say("Once.", { id: "request-1" })).toEqual(once);
    expect(prompts(again).filter((text) => text === "Once.")).toEqual([]);
  });

  test("a prompt finds the results whose append is under way", async () => {
    const { session } = await plant();
    await session.appendMessages([{ role: "user", content: "Look." }, turn("x")[1]!]);
    const results = session.appendMessages([
      { role: "toolResult", toolCallId: "call-x-1", content: "Pears." },
    ]);
    await session.say("And now?");
    await results;
    expect(session.getBranch().filter((entry) => isMessage(entry, "toolResult"))).toHaveLength(5);
  });
});
