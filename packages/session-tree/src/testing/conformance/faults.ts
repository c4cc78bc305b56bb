import { custom } from "../../entry/kinds.ts";
import { type SessionChange, SessionTree } from "../../store/session-tree.ts";
import type { SessionStore } from "../../store/store.ts";
import { type Fault, type FaultPoint, faultStore } from "../fault-store.ts";
import { codeOf, header, type Trial } from "./store-under-test.ts";

const note = (data: unknown) => custom.of({ customType: "test", data });

/** Returns a session on a store whose calls fail as the returned object is set. */
async function sessionOn(store: SessionStore) {
  const state: { plan: (point: FaultPoint) => Fault | undefined } = { plan: () => undefined };
  const faulty = faultStore(store, (point) => state.plan(point));
  const session = await SessionTree.open(await faulty.create(header("s1")));
  const changes: SessionChange[] = [];
  session.subscribe((change) => changes.push(change));
  const appendsGoWrong = (fault: Fault) => {
    state.plan = ({ call }) => (call === "append" ? fault : undefined);
  };
  const heal = () => {
    state.plan = () => undefined;
  };
  /** Returns the state of the store for a reader that opens it now. */
  const stored = async () => {
    const log = await store.open({ file: session.log.ref }, "read");
    const opened = await SessionTree.open(log);
    await opened.load();
    const said = [...opened.tree.entries()].map((entry) => (entry as { data?: unknown }).data);
    return { said, leafId: opened.leafId };
  };
  return { session, state, changes, appendsGoWrong, heal, stored };
}

/** Rules of a session while calls to its store fail. */
export function faultConformance({ test, expect }: Trial): void {
  test("a failed append throws, and none of its entries count", async (store) => {
    const { session, changes, appendsGoWrong, heal, stored } = await sessionOn(store);
    await session.append(note("a"));
    const { leafId } = session;
    appendsGoWrong({ fail: "write-failed" });
    expect(await codeOf(session.append([note("b"), note("c")]))).toBe("write-failed");
    expect(session.leafId).toBe(leafId);
    expect(changes.at(-1)?.type).toBe("persist_failed");
    heal();
    await session.append(note("d"));
    expect(changes.at(-1)?.type).toBe("persist_recovered");
    expect(await stored()).toEqual({ said: ["a", "d"], leafId: session.leafId });
  });

  test("queued entries are written in order, each once, wherever the failure was", async (store) => {
    const { session, appendsGoWrong, heal, stored } = await sessionOn(store);
    const wanted: string[] = [];
    const kept: Promise<unknown>[] = [];
    const faults: Fault[] = [
      { fail: "write-failed" },
      { shorten: 0 },
      { shorten: 1 },
      { failAfter: "write-failed" },
    ];
    for (const [round, fault] of faults.entries()) {
      appendsGoWrong(fault);
      const batch = [`${round}a`, `${round}b`, `${round}c`];
      wanted.push(...batch, `${round}d`);
      kept.push(session.append(batch.map(note), { onFailure: "queue" }));
      kept.push(session.append(note(`${round}d`), { onFailure: "queue" }));
      expect(await codeOf(session.append(note("not kept")))).toBe(
        "failAfter" in fault || "fail" in fault ? "write-failed" : "short-write",
      );
      expect(session.queued.entries).toBe(4);
      heal();
      await session.flush();
      expect(session.queued.entries).toBe(0);
    }
    await Promise.all(kept);
    expect(await stored()).toEqual({ said: wanted, leafId: session.leafId });
    expect(session.getBranch().length).toBe(wanted.length);
  });

  test("a session is valid after a part of a batch was written", async (store) => {
    const { session, appendsGoWrong, heal, stored } = await sessionOn(store);
    await session.append(note("a"));
    appendsGoWrong({ shorten: 2 });
    expect(await codeOf(session.append([note("b"), note("c"), note("d")]))).toBe("short-write");
    const { said } = await stored();
    expect(said).toEqual(["a", "b", "c"]);
    heal();
    await session.append(note("e"));
    await session.load();
    expect(await stored()).toEqual({ said: ["a", "b", "c", "e"], leafId: session.leafId });
    expect(session.tree.length).toBe(4);
    expect(session.getBranch().length).toBe(2);
  });

  test("entries are in the order of their appends, whatever the order of the store's answers", async (store) => {
    const { session, state, stored } = await sessionOn(store);
    state.plan = ({ number }) => ({ delay: (number * 7) % 5 });
    const names = Array.from({ length: 20 }, (_, at) => `e${at}`);
    await Promise.all(
      names.map((name, at) => session.append(note(name), { durability: at % 3 ? "flush" : "fsync" })),
    );
    expect(await stored()).toEqual({ said: names, leafId: session.leafId });
  });

  test("a failed sync is reported, and the entries are there at the next opening", async (store) => {
    const { session, state, stored } = await sessionOn(store);
    state.plan = ({ call }) => (call === "flush" ? { fail: "sync-failed" } : undefined);
    expect(await codeOf(session.append(note("a"), { durability: "fsync" }))).toBe("sync-failed");
    expect(await codeOf(session.flush())).toBe("sync-failed");
    expect(await stored()).toEqual({ said: ["a"], leafId: session.leafId });
  });

  test("closing a session rejects the entries that could not be written", async (store) => {
    const { session, appendsGoWrong, stored } = await sessionOn(store);
    appendsGoWrong({ fail: "write-failed" });
    const kept = codeOf(session.append(note("a"), { onFailure: "queue" }));
    await session.close();
    expect(await kept).toBe("write-failed");
    expect((await stored()).said).toEqual([]);
  });
}
