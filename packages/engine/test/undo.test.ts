import { addRule, lastAct, openSession, PIN, rulesOf, type Session } from "@espalier/engine";
import { custom, labelsInForce } from "@espalier/session-tree";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { contextOf, plant } from "./build-session.ts";

describe("undo of a compaction", () => {
  test("that was requested restores the leaf and the context from before it", async () => {
    const { session, store } = await plant();
    const before = { leafId: session.leafId, context: await contextOf(session, store) };
    expect((await session.compact()).eligible).toBe(true);
    expect(await session.undo()).toMatchObject({ leafId: before.leafId, editorText: null });
    expect(await contextOf(session, store)).toEqual(before.context);
  });

  test("reverses acts in the opposite order", async () => {
    const { session } = await plant();
    await session.compact();
    const compacted = session.leafId;
    await session.appendMessages([{ role: "user", content: "What about the south wall?" }]);
    expect(await session.undo()).toMatchObject({
      leafId: compacted,
      editorText: "What about the south wall?",
    });
    expect((await session.undo()).leafId).not.toBe(compacted);
    expect((await session.undo()).editorText).toMatch(/^Question 4\. /);
  });

  test("that was automatic is skipped, and the prompt before it is undone", async () => {
    const { session } = await plant();
    expect((await session.compact({ reason: "threshold" })).eligible).toBe(true);
    expect((await session.undo()).editorText).toMatch(/^Question 4\. /);
  });
});

describe("undo of a label, a name or a pin", () => {
  test("restores the earlier values, newest first, and redo the later ones", async () => {
    const { session } = await plant();
    const target = session.leafId!;
    await session.label(target, "first");
    await session.label(target, "second");
    await session.rename("pears");
    await session.pin(target);
    const seen = () => [session.getLabel(target), session.name, session.pinned().length];
    const done = seen();
    expect(done).toEqual(["second", "pears", 1]);
    expect((await session.undo()).act).toMatchObject({ kind: "pin" });
    expect((await session.undo()).act).toMatchObject({ kind: "name", text: "pears" });
    expect((await session.undo()).act).toMatchObject({ kind: "label", text: "second" });
    expect(seen()).toEqual(["first", undefined, 0]);
    expect((await session.undo()).act).toMatchObject({ kind: "label", text: "first" });
    expect(session.getLabel(target)).toBeUndefined();
    for (let step = 0; step < 4; step++) await session.redo();
    expect(seen()).toEqual(done);
    await expect(session.redo()).rejects.toMatchObject({ code: "nothing-to-redo" });
    expect(session.leafId === target || session.getBranch().some(({ id }) => id === target)).toBe(true);
  });
});

test("a label that a navigation set is undone with it, or alone when the leaf was already there", async () => {
  const { session } = await plant();
  const target = session.leafId!;
  await session.navigate(target, { label: "here" });
  expect((await session.undo()).act).toMatchObject({ kind: "label", text: "here" });
  expect(session.getLabel(target)).toBeUndefined();
  const answer = session.getBranch().at(-3)!.id;
  await session.navigate(answer, { label: "there" });
  expect((await session.undo()).act).toMatchObject({ kind: "navigation" });
  expect(session.leafId).toBe(target);
});

test("undo skips an entry of another program that pins nothing", async () => {
  const { session } = await plant();
  const pinned = session.leafId!;
  await session.pin(pinned);
  for (const data of [{}, { targetId: 7 }, null]) await session.append(custom.of({ customType: PIN, data }));
  expect((await session.undo()).act.kind).toBe("pin");
  expect(session.pinned()).toEqual([]);
});

describe("a redo", () => {
  test("reverses several undos, and can be undone again", async () => {
    const { session, store } = await plant();
    await session.compact();
    const compacted = { leafId: session.leafId, context: await contextOf(session, store) };
    await session.undo();
    await session.undo();
    await session.redo();
    const { act } = await session.redo();
    expect(act.kind).toBe("compaction");
    expect({ leafId: session.leafId, context: await contextOf(session, store) }).toEqual(compacted);
    expect((await session.undo()).act.kind).toBe("compaction");
  });

  test("does nothing after another act, or after a merge", async () => {
    const { session } = await plant();
    await expect(session.redo()).rejects.toMatchObject({ code: "nothing-to-redo" });
    await session.undo();
    await session.appendMessages([{ role: "user", content: "What about the south wall?" }]);
    await expect(session.redo()).rejects.toMatchObject({ code: "nothing-to-redo" });
  });

  test("does nothing after a rule was added, which it would take off the path", async () => {
    const { session } = await plant();
    await session.undo();
    await addRule(session, "never push");
    await expect(session.redo()).rejects.toMatchObject({ code: "nothing-to-redo" });
    expect(rulesOf(session).map(({ text }) => text)).toEqual(["never push"]);
  });
});

test("property: undos and redos between acts restore the state before and after each act", async () => {
  const acts = [
    "prompt",
    "label",
    "unlabel",
    "name",
    "pin",
    "unpin",
    "hide",
    "show",
    "navigate",
    "leave",
    "compact",
    "merge",
  ];
  const step = fc.record({
    does: fc.oneof(
      { weight: 4, arbitrary: fc.constantFrom(...acts) },
      fc.constantFrom("undo", "undo", "redo"),
    ),
    at: fc.nat(99),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 16 }), async (steps) => {
      const { session, store } = await plant({ turns: 2 });
      const state = async () => ({
        context: await contextOf(session, store),
        labels: [...labelsInForce(session.tree)].map(([id, { label }]) => `${id} ${label}`).sort(),
        name: session.name ?? "",
        pinned: session.pinned().sort(),
      });
      const id = (at: number) => session.getEntries().at(at % session.getEntries().length)!.id;
      const carryOut = (does: string, at: number): Promise<unknown> => {
        if (does === "prompt") return session.appendMessages([{ role: "user", content: `prompt ${at}` }]);
        if (does === "label") return session.label(id(at), `label ${at}`);
        if (does === "unlabel") return session.label(id(at));
        if (does === "name") return session.rename(`name ${at}`);
        if (does === "pin" || does === "unpin") return session.pin(id(at), does === "pin");
        if (does === "hide" || does === "show") return session.hide(id(at), does === "hide");
        if (does === "compact") return session.compact({ settings: { keepRecentTokens: at } });
        if (does === "merge") return session.merge(id(at));
        return session.navigate(id(at), { summarize: does === "leave" });
      };
      type State = Awaited<ReturnType<typeof state>>;
      const done: { before: State; after: State }[] = [];
      const undone: typeof done = [];
      for (const { does, at } of steps) {
        const [act] = does === "undo" ? done.splice(-1) : does === "redo" ? undone.splice(-1) : [];
        if (act) {
          await session[does as "undo" | "redo"]();
          expect(await state()).toEqual(does === "undo" ? act.before : act.after);
          (does === "undo" ? undone : done).push(act);
        }
        if (!acts.includes(does)) continue;
        const before = await state();
        const { length } = session.getEntries();
        await carryOut(does, at).catch((error: { code?: unknown }) =>
          expect(error.code).toEqual(expect.any(String)),
        );
        if (session.getEntries().length === length) continue;
        done.push({ before, after: await state() });
        undone.length = 0;
      }
    }),
    { numRuns: 60 },
  );
});

describe("an undo or redo of an expected action", () => {
  /** Opens the session as another process would, acts on it, and closes it. */
  const beside = async (
    planted: Awaited<ReturnType<typeof plant>>,
    act: (session: Session) => Promise<unknown>,
  ) => {
    const { store, session } = planted;
    const other = await openSession({ file: session.file }, { store, onBusy: "share" });
    try {
      return await act(other);
    } finally {
      await other.close();
    }
  };

  test("is refused when another writer has acted since, and names the newer action", async () => {
    const planted = await plant();
    const { session } = planted;
    const { entryId: shown } = lastAct(session.tree, session.leafId)!;
    const labelId = await beside(planted, (other) => other.label(other.leafId!, "seen"));
    const undone = beside(planted, (other) => other.undo({ expected: shown }));
    await expect(undone).rejects.toMatchObject({
      code: "stale",
      message: `The newest action is now the label "${labelId}", not "${shown}"; nothing was undone.`,
    });
    await beside(planted, async (other) => {
      expect(other.getLabel(other.leafId!)).toBe("seen");
      expect((await other.undo({ expected: labelId as string })).act.entryId).toBe(labelId);
      expect((await other.undo({ expected: shown })).act.entryId).toBe(shown);
    });
  });

  test("is refused when another writer has undone or redone another action since", async () => {
    const planted = await plant();
    const { session } = planted;
    await session.label(session.leafId!, "first");
    await session.rename("pears");
    const { act } = await session.undo();
    const earlier = (await beside(planted, (other) => other.undo())) as { act: { entryId: string } };
    await expect(beside(planted, (other) => other.redo({ expected: act.entryId }))).rejects.toMatchObject({
      code: "stale",
      message: `The newest undone action is now the label "${earlier.act.entryId}", not "${act.entryId}"; nothing was redone.`,
    });
    await beside(planted, async (other) => {
      expect((await other.redo({ expected: earlier.act.entryId })).act).toEqual(earlier.act);
      expect((await other.redo({ expected: act.entryId })).act).toEqual(act);
    });
  });
});
