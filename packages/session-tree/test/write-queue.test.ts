import { EspalierError } from "@espalier/jsonl-stream";
import {
  custom,
  label,
  memoryStore,
  type SessionChange,
  type SessionLog,
  SessionTree,
  Turns,
} from "@espalier/session-tree";
import fc from "fast-check";
import { expect, test, vi } from "vitest";

const header = {
  type: "session",
  version: 3,
  id: "s1",
  timestamp: "2026-01-01T00:00:00.000Z",
  cwd: "/",
} as const;
const note = (data: unknown) => custom.of({ customType: "test", data });

/** Far longer than it takes, since other tests run beside this one. */
const PATIENT = { timeout: 30_000 };

/** A session whose log fails while `failure` names a code. */
async function failingSession() {
  const store = memoryStore();
  const { ref } = await store.create(header);
  const log = await store.open({ file: ref }, "write");
  const state = { failure: undefined as "short-write" | "changed" | undefined, attempts: 0, flushes: 0 };
  const failing: SessionLog = {
    ref,
    header: log.header,
    get view() {
      return log.view;
    },
    upgraded: undefined,
    load: () => log.load(),
    readPath: (leafId) => log.readPath(leafId),
    async append(lines) {
      state.attempts += 1;
      if (state.failure) throw new EspalierError(state.failure, "No room.");
      return log.append(lines);
    },
    async flush() {
      state.flushes += 1;
    },
    takeIn: () => log.takeIn(),
    close: () => log.close(),
  };
  const session = await SessionTree.open(failing);
  const changes: SessionChange[] = [];
  session.subscribe((change) => changes.push(change));
  const stored = async () =>
    [...(await SessionTree.open(await store.open({ file: ref }, "read"))).tree.entries()].map(
      (entry) => (entry as { data?: unknown }).data,
    );
  return { session, state, changes, stored };
}

test("a failed append is reported at once, and none of it is in memory", async () => {
  const { session, state, changes, stored } = await failingSession();
  await session.append(note("a"));
  const { leafId } = session;
  state.failure = "short-write";
  await expect(session.append([note("b"), note("c")])).rejects.toMatchObject({ code: "short-write" });
  expect(session.leafId).toBe(leafId);
  expect(session.tree.length).toBe(1);
  expect(changes.at(-1)).toMatchObject({
    type: "persist_failed",
    error: { code: "short-write" },
    queued: { entries: 0, bytes: 0 },
  });
  state.failure = undefined;
  await session.append(note("d"));
  expect(changes.at(-1)).toEqual({ type: "persist_recovered", drained: 0 });
  expect(await stored()).toEqual(["a", "d"]);
});

test("queued entries are written in order once writing works again, each once", async () => {
  const { session, state, changes, stored } = await failingSession();
  state.failure = "short-write";
  const kept = ["a", "b", "c"].map((name) => session.append(note(name), { onFailure: "queue" }));
  await vi.waitFor(() => expect(session.queued.entries).toBe(3), PATIENT);
  expect(session.tree.length).toBe(0);
  expect(session.queued.bytes).toBeGreaterThan(30);
  // Nothing overtakes what is kept.
  await expect(session.append(note("late"))).rejects.toMatchObject({ code: "short-write" });
  await expect(session.flush()).rejects.toMatchObject({ code: "short-write" });
  state.failure = undefined;
  await session.append(note("d"));
  const written = await Promise.all(kept);
  expect(written.flat().map(({ parentId }) => parentId)).toEqual([
    null,
    written[0]![0]!.id,
    written[1]![0]!.id,
  ]);
  expect(await stored()).toEqual(["a", "b", "c", "d"]);
  expect(session.queued).toEqual({ entries: 0, bytes: 0 });
  expect(changes.filter(({ type }) => type === "persist_recovered")).toEqual([
    { type: "persist_recovered", drained: 3 },
  ]);
});

test("queued entries are retried automatically, at growing intervals", async () => {
  vi.useFakeTimers();
  try {
    const { session, state, stored } = await failingSession();
    state.failure = "short-write";
    const kept = session.append(note("a"), { onFailure: "queue" });
    await vi.advanceTimersByTimeAsync(100);
    expect(state.attempts).toBe(1);
    await vi.advanceTimersByTimeAsync(250 + 500);
    expect(state.attempts).toBe(3);
    state.failure = undefined;
    await vi.advanceTimersByTimeAsync(1_000);
    await kept;
    expect(await stored()).toEqual(["a"]);
  } finally {
    vi.useRealTimers();
  }
});

test("a queue has an end, and `queue-full` reports it", async () => {
  const { session, state, stored } = await failingSession();
  state.failure = "short-write";
  const results = Array.from({ length: 1_003 }, (_, at) =>
    session.append(note(at), { onFailure: "queue" }).then(
      () => "written",
      ({ code }: EspalierError) => code,
    ),
  );
  await vi.waitFor(() => expect(session.queued.entries).toBe(1_000), PATIENT);
  const large = session.append(note("x".repeat(65 << 20)), { onFailure: "queue" });
  await expect(large).rejects.toMatchObject({ code: "queue-full", cause: { code: "short-write" } });
  state.failure = undefined;
  await session.flush();
  const codes = await Promise.all(results);
  expect(codes.slice(0, 1_000).every((code) => code === "written")).toBe(true);
  expect(codes.slice(1_000)).toEqual(["queue-full", "queue-full", "queue-full"]);
  expect(await stored()).toEqual(Array.from({ length: 1_000 }, (_, at) => at));
});

test("drafts of a function are made once, in their turn, and counted as they are written", async () => {
  const { session, state, changes, stored } = await failingSession();
  state.failure = "short-write";
  let calls = 0;
  const draft = (count: number) => () => {
    calls += 1;
    return Array.from({ length: count }, () => note(calls));
  };
  const first = session.append(draft(2), { onFailure: "queue" });
  const second = session.append(draft(1), { onFailure: "queue" });
  await vi.waitFor(() => expect(session.queued.entries).toBe(3), PATIENT);
  expect(session.queued.bytes).toBeGreaterThan(100);
  await expect(session.flush()).rejects.toMatchObject({ code: "short-write" });
  expect(calls).toBe(1);
  state.failure = undefined;
  await session.flush();
  await Promise.all([first, second]);
  expect(calls).toBe(2);
  expect(await stored()).toEqual([1, 1, 2]);
  expect(changes.at(-1)).toEqual({ type: "persist_recovered", drained: 3 });
  state.failure = "short-write";
  const tooMany = session.append(draft(1_001), { onFailure: "queue" });
  await expect(tooMany).rejects.toMatchObject({ code: "queue-full" });
});

test("a permanent failure ends the wait, and nothing stays queued", async () => {
  const { session, state } = await failingSession();
  state.failure = "changed";
  await expect(session.append(note("a"), { onFailure: "queue" })).rejects.toMatchObject({ code: "changed" });
  expect(session.queued.entries).toBe(0);
});

test("a queued entry with unwritable content is refused in its turn", async () => {
  const { session, state, stored } = await failingSession();
  state.failure = "short-write";
  const circle: { self?: unknown } = {};
  circle.self = circle;
  const kept = [
    session.append(note("a"), { onFailure: "queue" }),
    session.append(note(circle), { onFailure: "queue" }),
    session.append(label.of({ targetId: "nobody", label: "x" }), { onFailure: "queue" }),
    session.append(note("b"), { onFailure: "queue" }),
  ];
  const settled = Promise.allSettled(kept);
  await vi.waitFor(() => expect(session.queued.entries).toBe(4), PATIENT);
  state.failure = undefined;
  await session.flush();
  expect((await settled).map((each) => (each.status === "rejected" ? each.reason.code : "written"))).toEqual([
    "written",
    "invalid-entry",
    "unknown-entry",
    "written",
  ]);
  expect(await stored()).toEqual(["a", "b"]);
});

test("closing tries once more, and rejects the entries that are still not written", async () => {
  const { session, state, stored } = await failingSession();
  state.failure = "short-write";
  const kept = session.append(note("a"), { onFailure: "queue" });
  const rejected = expect(kept).rejects.toMatchObject({ code: "short-write" });
  await session.close();
  await rejected;
  expect(await stored()).toEqual([]);
});

test("an append during closing is written, or rejected as closed", async () => {
  for (let at = 0; at < 20; at++) {
    const { session, state } = await failingSession();
    // Behind a failure, too: that one is not the reason of this one.
    state.failure = "short-write";
    await session.append(note("a")).catch(() => undefined);
    state.failure = undefined;
    const closed = session.close();
    for (let step = 0; step < at; step++) await undefined;
    const outcome = await session.append(note("b")).then(
      () => "written",
      (error: EspalierError) => error.code,
    );
    expect(["written", "closed"]).toContain(outcome);
    await closed;
  }
});

test("entries count before they are on disk, and are acknowledged once they are", async () => {
  const { session, state } = await failingSession();
  let sync: () => void = () => undefined;
  session.log.flush = () =>
    new Promise((resolve) => {
      state.flushes += 1;
      sync = resolve;
    });
  let isAcknowledged = false;
  const first = session.append(note("a"), { durability: "fsync" }).then((entries) => {
    isAcknowledged = true;
    return entries;
  });
  const [second] = await session.append(note("b"), { durability: "flush" });
  expect(isAcknowledged).toBe(false);
  expect(session.leafId).toBe(second!.id);
  expect(session.tree.length).toBe(2);
  sync();
  const [entry] = await first;
  expect(second!.parentId).toBe(entry!.id);
});

test("an append that is asked for at whatever moment another one ends is written too", PATIENT, async () => {
  const store = memoryStore();
  const { ref } = await store.create(header);
  const session = await SessionTree.open(await store.open({ file: ref }, "write"));
  const moments = 40;
  for (let at = 0; at < moments; at++) {
    const first = session.append(note(`first ${at}`));
    // Steps of the event loop's queue of promises: the end of the writing lies at one of them.
    for (let step = 0; step < at; step++) await undefined;
    await Promise.all([first, session.append(note(`second ${at}`))]);
  }
  expect(session.tree.length).toBe(2 * moments);
});

test("work runs in the order of its calls, as many pieces at a time as allowed, whatever each one takes or throws", async () => {
  const piece = fc.record({ waits: fc.nat(3), fails: fc.boolean() });
  await fc.assert(
    fc.asyncProperty(
      fc.array(piece, { maxLength: 12 }),
      fc.option(fc.integer({ min: 1, max: 4 })),
      async (pieces, limit) => {
        const turns = limit === null ? new Turns() : new Turns(limit);
        const begun: number[] = [];
        let running = 0;
        let most = 0;
        const all = pieces.map(({ waits, fails }, at) =>
          turns.take(async () => {
            begun.push(at);
            most = Math.max(most, ++running);
            for (let tick = 0; tick < waits; tick++) await new Promise((resolve) => setImmediate(resolve));
            running--;
            if (fails) throw at;
            return at;
          }),
        );
        expect(begun).toEqual([]);
        const ends = await Promise.allSettled(all);
        expect(begun).toEqual(pieces.map((_, at) => at));
        expect(most).toBeLessThanOrEqual(limit ?? 1);
        expect(ends.map((end) => (end.status === "fulfilled" ? end.value : end.reason))).toEqual(begun);
        expect(ends.map(({ status }) => status === "rejected")).toEqual(pieces.map(({ fails }) => fails));
      },
    ),
  );
});

test("a limit is used: as many pieces run at once", async () => {
  const turns = new Turns(3);
  const open: (() => void)[] = [];
  const work = () => new Promise<void>((resolve) => open.push(resolve));
  const all = Array.from({ length: 4 }, () => turns.take(work));
  await new Promise((resolve) => setImmediate(resolve));
  expect(open).toHaveLength(3);
  open[0]!();
  await new Promise((resolve) => setImmediate(resolve));
  expect(open).toHaveLength(4);
  for (const end of open) end();
  await Promise.all(all);
});
