import { defineExtension, type ExtensionState, openSession } from "@espalier/engine";
import { describe, expect, test } from "vitest";
import { contextOf, plant, plantWith, turn } from "./build-session.ts";

/** An extension that counts what it is told to. */
function counting() {
  const held: { counter?: ExtensionState<number> } = {};
  const extension = defineExtension((api) => {
    held.counter = api.state("counting", {
      initial: 0,
      fold: (sum: number, data) => sum + (data as number),
    });
  });
  return { extension, counter: () => held.counter! };
}

describe("the state of an extension", () => {
  test("follows the branch, a reopening, a compaction and a fork", async () => {
    const { extension, counter } = counting();
    const { session, store } = await plantWith(extension);
    const path = session.getBranch();
    await counter().append(1);
    await counter().append(2);
    expect(counter().get()).toBe(3);
    await session.navigate(path[3]!.id);
    expect(counter().get()).toBe(0);
    await counter().append(10);
    for (const name of ["5", "6", "7", "8", "9"]) await session.appendMessages(turn(name));
    await session.compact();
    expect(counter().get()).toBe(10);
    expect(counter().get(path.at(-1)!.id)).toBe(0);
    const { file } = await session.fork(session.leafId!);
    const again = counting();
    await (await openSession({ file }, { store, extensions: [again.extension] })).close();
    expect(again.counter().get()).toBe(10);
    await contextOf(session, store);
  });

  test("cannot be changed in place: such a fold throws, and other paths keep their state", async () => {
    const held: { list?: ExtensionState<string[]>; newest?: ExtensionState<string[]> } = {};
    const { session } = await plantWith((api) => {
      const fold = (list: string[], data: unknown) => {
        list.push(data as string);
        return list;
      };
      held.list = api.state("list", { initial: [], fold });
      held.newest = api.state("newest", { initial: [] });
    });
    const before = session.leafId;
    await held.list!.append("one");
    expect(() => held.list!.get()).toThrow(TypeError);
    expect(held.list!.get(before)).toEqual([]);
    const id = await held.newest!.append(["one"]);
    expect(() => held.newest!.get().push("two")).toThrow(TypeError);
    expect(session.getEntry(id)).toMatchObject({ data: ["one"] });
  });

  test("is the newest data if there is no fold", async () => {
    let notes: ExtensionState<unknown> | undefined;
    const { session } = await plantWith((api) => {
      notes = api.state("notes", { initial: "none" });
    });
    expect(notes!.get()).toBe("none");
    const id = await notes!.append({ todo: ["a"] });
    expect(notes!.get()).toEqual({ todo: ["a"] });
    expect(session.getEntry(id)).toMatchObject({ type: "custom", customType: "notes" });
  });
});

test("a handler can query the session with its own functions, and change nothing", async () => {
  const asked: unknown[] = [];
  const said: string[] = [];
  const { session } = await plant({
    cwd: "/garden",
    ui: { notify: (message, kind) => said.push(`${kind}: ${message}`) },
    extensions: [
      (api) => {
        api.on("session_before_compact", (_event, { cwd, hasUI, ui, sessionManager }) => {
          const branch = sessionManager.getBranch();
          const [first] = branch;
          asked.push(
            cwd,
            hasUI,
            sessionManager.getSessionId(),
            sessionManager.getSessionFile(),
            sessionManager.getLeafId(),
            branch.length,
            sessionManager.getBranch(first!.id).length,
            sessionManager.getEntries().length,
            sessionManager.getEntry(first!.id) === first,
            sessionManager.getEntry("nobody"),
            sessionManager.getLabel(first!.id),
            Object.isFrozen(first),
          );
          ui.notify("compacting");
          ui.notify("careful", "warning");
        });
      },
    ],
  });
  const [first] = session.getBranch();
  await session.label(first!.id, "start");
  const leafId = session.leafId;
  await session.compact();
  expect(asked).toEqual([
    "/garden",
    // It can be told something, and not be asked.
    false,
    session.id,
    session.file,
    leafId,
    16,
    1,
    17,
    true,
    undefined,
    "start",
    true,
  ]);
  expect(said).toEqual(["info: compacting", "warning: careful"]);
});
