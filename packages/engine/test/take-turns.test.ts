import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  createSession,
  migrateStore,
  openOrCreate,
  openSession,
  openStore,
  type StoreOptions,
} from "@espalier/engine";
import { memoryStore, type SessionStore } from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { type PrivateServer, serverPrograms, startPrivateServer } from "@espalier/store-postgres/testing";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";

/** Far more than they take: other tests run beside. */
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const folder = mkdtempSync(join(tmpdir(), "espalier-turns-"));
const hasServer = serverPrograms() !== undefined;
if (!hasServer) console.warn("There is no PostgreSQL server here: sessions in it are not tried.");
let server: PrivateServer | undefined;
beforeAll(async () => {
  if (!hasServer) return;
  server = await startPrivateServer();
  await migrateStore(server.url);
});
afterAll(async () => {
  await server?.remove();
  rmSync(folder, { recursive: true });
});

interface Place {
  name: string;
  /** Two servers of one place: what each gives its sessions. */
  open(): Promise<{ servers: [StoreOptions, StoreOptions]; close(): Promise<void> }>;
  isThere: boolean;
}
const shared = (options: StoreOptions) => ({
  servers: [options, options] as [StoreOptions, StoreOptions],
  close: async () => undefined,
});
const PLACES: Place[] = [
  { name: "files", isThere: true, open: async () => shared({ home: mkdtempSync(join(folder, "home-")) }) },
  { name: "memory", isThere: true, open: async () => shared({ store: memoryStore() }) },
  {
    name: "PostgreSQL",
    isThere: hasServer,
    async open() {
      const address = `${server!.url}?namespace=turns-${Math.random()}`;
      const stores = [await openStore(address), await openStore(address)] as const;
      return {
        servers: [{ store: stores[0] }, { store: stores[1] }],
        close: async () => void (await Promise.all(stores.map((store) => store.close()))),
      };
    },
  },
];

const said = (role: string, content: string) => [{ role, content }] as never;

for (const { name, open, isThere } of PLACES)
  describe.skipIf(!isThere)(`in ${name}`, () => {
    test("a waiting caller gets a session as soon as its holder of any kind releases it", async () => {
      const { servers, close } = await open();
      const holder = await createSession({ ...servers[0], id: "s1" });
      setTimeout(() => void holder.close(), 200);
      const began = performance.now();
      const next = await openSession("s1", { ...servers[1], waitMs: 20_000 });
      expect(performance.now() - began).toBeGreaterThan(150);
      await expect(openSession("s1", { ...servers[0], waitMs: 50 })).rejects.toMatchObject({ code: "busy" });
      await next.close();
      await close();
    });

    test("two servers take turns on one session, and read one line of messages", async () => {
      const { servers, close } = await open();
      const turn = async (options: StoreOptions, number: number) => {
        const session = await openOrCreate("user-1", { ...options, waitMs: 20_000 });
        await session.appendMessages(said("user", `Question ${number}.`));
        await session.appendMessages(said("assistant", `Answer ${number}.`));
        await session.close();
      };
      await Promise.all(Array.from({ length: 8 }, (_, at) => turn(servers[at % 2]!, at)));
      const session = await openSession("user-1", { ...servers[0], mode: "read" });
      expect(session.branches()).toHaveLength(1);
      const texts = session.context.messages.map((message) => JSON.stringify(message));
      expect(texts).toHaveLength(16);
      for (let at = 0; at < 16; at += 2) {
        const [, number] = /Question (\d)/.exec(texts[at]!)!;
        expect(texts[at + 1]).toContain(`Answer ${number}.`);
      }
      await session.close();
      await close();
    });

    test("a session that another server continued before its maker had the lease goes on from there", async () => {
      const { servers, close } = await open();
      const store = servers[0]!.store ?? fileStore({ home: servers[0]!.home! });
      const late: SessionStore = {
        ...store,
        lease: async (ref, options) => {
          const other = await openSession("s1", servers[1]!);
          await other.appendMessages(said("user", "First."));
          await other.close();
          return store.lease(ref, options);
        },
      };
      const session = await createSession({ store: late, id: "s1" });
      await session.appendMessages(said("user", "Second."));
      expect(session.branches()).toHaveLength(1);
      await session.close();
      await close();
    });

    test("a server without a lease learns that the leaf moved, writes nothing, and continues from there", async () => {
      const { servers, close } = await open();
      await (await createSession({ ...servers[0], id: "s1" })).close();
      const beside = { lease: false };
      const one = await openSession("s1", { ...servers[0], ...beside });
      const two = await openSession("s1", { ...servers[1], ...beside });
      const [first] = await one.appendMessages(said("user", "First."), { ifLeaf: null });
      await expect(two.appendMessages(said("user", "Second."), { ifLeaf: null })).rejects.toMatchObject({
        code: "moved",
        leafId: first!.id,
      });
      expect(two.context.messages).toHaveLength(0);
      await two.close();
      const again = await openSession("s1", { ...servers[1], ...beside });
      await again.appendMessages(said("user", "Second."), { ifLeaf: first!.id });
      expect(again.branches()).toHaveLength(1);
      expect(again.tree.length).toBe(2);
      await one.close();
      await again.close();
      await close();
    });

    test("reading an open session does not wait", async () => {
      const { servers, close } = await open();
      const made = await createSession({ ...servers[0], id: "s1" });
      await made.appendMessages([...said("user", "What grows?"), ...said("assistant", "Pears.")] as never);
      await made.rename("Garden");
      await made.label(made.leafId!, "here");
      const left = made.leafId!;
      await made.navigate(null);
      await made.appendMessages(said("user", "And here?"));
      await made.close();
      const session = await openSession("s1", servers[1]);
      expect({
        name: session.name,
        label: session.getLabel(left),
        branches: session.branches().length,
        entries: session.getEntries().length,
        branch: session.getBranch(left).length,
        context: session.contextAt(left).messages.length,
        entry: session.getEntry(left)?.type,
        tree: session.tree.length,
        ok: session.diagnose().ok,
        steps: [...session.replay()].length,
        pinned: session.pinned(),
        plan: session.planCompaction().eligible,
      }).toEqual({
        name: "Garden",
        label: "here",
        branches: 2,
        entries: 6,
        branch: 2,
        context: 2,
        entry: "message",
        tree: 6,
        ok: true,
        steps: 6,
        pinned: [],
        plan: false,
      });
      await session.close();
      await close();
    });
  });
