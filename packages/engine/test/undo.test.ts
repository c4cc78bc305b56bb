import { isMessage } from "@espalier/session-tree";
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
