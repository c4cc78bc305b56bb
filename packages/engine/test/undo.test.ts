import { addRule, lastAct, openSession, PIN, rulesOf, type Session } from "@espalier/engine";
import { custom, isMessage } from "@espalier/session-tree";
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

  test("property: any acts, undone and redone, restore the state", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.constantFrom("prompt", "label", "unlabel", "name", "navigate", "pin"), {
          minLength: 1,
          maxLength: 8,
        }),
        fc.nat({ max: 8 }),
        async (acts, back) => {
          const { session, store } = await plant();
          const first = session.leafId!;
          const state = async () => ({
            context: await contextOf(session, store),
            label: session.getLabel(first),
            name: session.name ?? "",
            pinned: session.pinned(),
          });
          const states = [await state()];
          for (const [at, act] of acts.entries()) {
            if (act === "prompt") await session.appendMessages([{ role: "user", content: `prompt ${at}` }]);
            else if (act === "label") await session.label(first, `label ${at}`);
            else if (act === "unlabel") await session.label(first);
            else if (act === "name") await session.rename(`name ${at}`);
            else if (act === "pin") await session.pin(first);
            else {
              // An answer: a prompt would be reopened, and the leaf of some navigations would not move.
              const other = [...session.tree.entries()].find(
                (entry) => isMessage(entry, "assistant") && entry.id !== session.leafId,
              );
              await session.navigate(other!.id);
            }
            states.push(await state());
          }
          const steps = Math.min(back, acts.length);
          for (let step = 1; step <= steps; step++) {
            await session.undo();
            expect(await state()).toEqual(states[acts.length - step]);
          }
          for (let step = steps - 1; step >= 0; step--) {
            await session.redo();
            expect(await state()).toEqual(states[acts.length - step]);
          }
        },
      ),
      { numRuns: 40 },
    );
  });
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
