import type { EspalierError } from "@espalier/jsonl-stream";
import { header, line, linesOf, type Trial } from "./store-under-test.ts";

/** Leases of writers, and waiting for the disk. */
export function leaseConformance({ test, expect }: Trial): void {
  test("a session has one lease at a time, and the error names its holder", async (store) => {
    const { ref } = await store.create(header("s1"));
    const lease = await store.lease({ file: ref });
    const refusal = await store.lease({ file: ref }).catch((error: unknown) => error);
    expect(refusal).toMatchObject({ code: "busy" });
    expect(Number.isNaN(Date.parse((refusal as EspalierError).holder!.since))).toBe(false);
    await lease.release();
    await lease.release();
    const next = await store.lease({ file: ref });
    await lease.release();
    await expect(store.lease({ file: ref })).rejects.toMatchObject({ code: "busy" });
    await next.release();
  });

  test("leases of different sessions are independent", async (store) => {
    const leases = [];
    for (const id of ["s1", "s2", "s3"])
      leases.push(await store.lease({ file: (await store.create(header(id))).ref }));
    for (const lease of leases) await lease.release();
  });

  test("of many calls for a lease at once, exactly one succeeds", async (store) => {
    const { ref } = await store.create(header("s1"));
    const outcomes = await Promise.all(
      Array.from({ length: 8 }, () => store.lease({ file: ref }).catch(() => undefined)),
    );
    const leases = outcomes.filter((lease) => lease !== undefined);
    expect(leases.length).toBe(1);
    await leases[0]!.release();
  });

  test("a waiting writer gets the lease when its holder releases it", async (store) => {
    const { ref } = await store.create(header("s1"));
    const held = await store.lease({ file: ref });
    const began = performance.now();
    setTimeout(() => void held.release(), 200);
    const next = await store.lease({ file: ref }, { waitMs: 10_000 });
    expect(performance.now() - began >= 150).toBe(true);
    await next.release();
  });

  test("waiting ends with an error that names the holder", async (store) => {
    const { ref } = await store.create(header("s1"));
    const held = await store.lease({ file: ref });
    const began = performance.now();
    await expect(store.lease({ file: ref }, { waitMs: 100 })).rejects.toMatchObject({ code: "busy" });
    expect(performance.now() - began >= 90).toBe(true);
    await held.release();
  });

  test("short leases wait for each other", async (store) => {
    const { ref } = await store.create(header("s1"));
    const order: number[] = [];
    await Promise.all(
      [1, 2, 3].map(async (act) => {
        const lease = await store.lease({ file: ref }, { waitMs: 5_000 });
        order.push(act);
        await new Promise((resolve) => setTimeout(resolve, 10));
        order.push(act);
        await lease.release();
      }),
    );
    expect(order.filter((act, at) => at % 2 === 0 && order[at + 1] === act).length).toBe(3);
  });

  test("a lease does not prevent appending or reading", async (store) => {
    const log = await store.create(header("s1"));
    const lease = await store.lease({ file: log.ref });
    const other = await store.open({ file: log.ref }, "write");
    await other.append([line("a")]);
    expect((await linesOf(other)).length).toBe(2);
    await lease.release();
  });

  test("a session with a lease cannot be deleted", async (store) => {
    const { ref } = await store.create(header("s1"));
    const lease = await store.lease({ file: ref });
    await expect(store.delete({ file: ref })).rejects.toMatchObject({ code: "busy" });
    await lease.release();
    expect(await store.delete({ file: ref })).toEqual([ref]);
  });

  test("a session that does not exist cannot be leased", async (store) => {
    await expect(store.lease("nobody")).rejects.toMatchObject({ code: "not-found" });
    const { ref } = await store.create(header("s1"));
    await store.delete({ file: ref });
    await expect(store.lease({ file: ref })).rejects.toMatchObject({ code: "not-found" });
  });

  test("a flush resolves, even if there is nothing to sync", async (store) => {
    const log = await store.create(header("s1"));
    await log.flush();
    await log.append([line("a")], { durability: "flush" });
    await Promise.all([log.flush(), log.flush()]);
    expect((await linesOf(await store.open({ file: log.ref }, "read"))).at(-1)).toBe(line("a"));
    await log.close();
  });
}
