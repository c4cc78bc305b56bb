// A store of whole objects under keys, as an object storage over HTTP has, made of published names only.
import { EspalierError, type SessionStore } from "espalier";
import {
  type ByteView,
  bytesView,
  firstHeader,
  type LogAppend,
  listingOf,
  MemoryLeases,
  readPathWindow,
  type SessionLog,
  upgradeLog,
} from "espalier/extend";
import { storeConformance } from "espalier/testing";
import { describe, expect, test } from "vitest";

interface StoredObject {
  bytes: Buffer;
  modified: number;
  /** Name of the session of which this object is the original in an old format. */
  originalOf?: string;
}

const fail = (code: string, message: string) => new EspalierError(code as "not-found", message);
const endsInLine = (bytes: Buffer) => bytes.length === 0 || bytes.at(-1) === 10;

function objectStore(): SessionStore {
  const objects = new Map<string, StoredObject>();
  const leases = new MemoryLeases();
  const headerOf = (object: StoredObject) => firstHeader(bytesView(object.bytes));

  const find = (ref: Parameters<SessionStore["open"]>[0]): string => {
    const { id, file } = (typeof ref === "string" ? { id: ref } : (ref ?? {})) as {
      id?: unknown;
      file?: unknown;
    };
    const isNamed = (typeof id === "string") !== (typeof file === "string");
    const named = String(file ?? id);
    const own = objects.get(named);
    const isOwn = own && own.originalOf === undefined && headerOf(own)?.id === id;
    const keys =
      file !== undefined || isOwn
        ? [named].filter((key) => objects.has(key))
        : [...objects].filter(([, it]) => !it.originalOf && headerOf(it)?.id === id).map(([key]) => key);
    if (!isNamed || keys.length === 0) throw fail("not-found", `There is no session ${named}.`);
    if (keys.length > 1)
      throw fail("ambiguous", `Several sessions have the id ${named}; name one by { file }.`);
    return keys[0]!;
  };

  const openAt = (ref: string, mode: "read" | "write"): SessionLog => {
    const opened = objects.get(ref)!;
    let object = opened;
    let seen = object.bytes.length;
    let isClosed = false;
    const header = firstHeader(bytesView(object.bytes));
    let upgraded = upgradeLog(bytesView(object.bytes), header);
    const view = (): ByteView => upgraded?.view ?? bytesView(object.bytes.subarray(0, seen));
    const refuseOther = () => {
      if (objects.get(ref) !== object)
        throw fail("changed", `${ref} was removed or upgraded; open it again.`);
    };
    return {
      ref,
      header,
      get view() {
        return view();
      },
      get upgraded() {
        return upgraded;
      },
      load: async () => view(),
      readPath: async (leafId) => readPathWindow(view(), leafId),
      async append(lines, { ifUnchanged = false } = {}): Promise<LogAppend> {
        if (isClosed) throw fail("closed", "The log is closed.");
        if (mode === "read") throw fail("read-only", `${ref} was opened for reading.`);
        const from = view().size;
        const text = lines.map((line) => `${line}\n`).join("");
        if (text.split("\n").length > lines.length + 1)
          throw fail("invalid-entry", "A line contains a newline.");
        if (lines.length === 0) return { offset: from, length: 0, from, to: from };
        refuseOther();
        if (ifUnchanged && object.bytes.length !== seen) throw fail("moved", `${ref} has grown.`);
        if (upgraded) {
          const original = `${ref}.v${upgraded.from}`;
          if (objects.has(original)) throw fail("exists", `${original} exists already.`);
          objects.set(original, { ...object, originalOf: ref });
          const bytes = Buffer.from(upgraded.view.read(0, upgraded.view.size));
          object = { bytes, modified: Date.now() };
          objects.set(ref, object);
          upgraded = undefined;
        }
        const own = Buffer.from(text);
        const before = endsInLine(object.bytes)
          ? object.bytes
          : Buffer.concat([object.bytes, Buffer.from("\n")]);
        object.bytes = Buffer.concat([before, own]);
        object.modified = Date.now();
        seen = object.bytes.length;
        return { offset: before.length, length: own.length, from, to: seen };
      },
      async takeIn() {
        refuseOther();
        if (upgraded || object.bytes.length === seen) return null;
        const from = seen;
        seen = object.bytes.length;
        return { from, to: seen };
      },
      async flush() {
        if (isClosed) throw fail("closed", "The log is closed.");
      },
      async close() {
        isClosed = true;
      },
    };
  };

  return {
    async create(header, lines = [], name) {
      const parts = [Buffer.from(`${typeof header === "string" ? header : JSON.stringify(header)}\n`)];
      const id = firstHeader(bytesView(parts[0]!))?.id;
      if (id === undefined) throw fail("invalid-entry", "The first line of a session has to be its header.");
      for (const line of lines) parts.push(Buffer.from(line), Buffer.from("\n"));
      const ref = name ?? id;
      const hasId = [...objects.values()].some((it) => !it.originalOf && headerOf(it)?.id === id);
      if (objects.has(ref) || (name === undefined && hasId))
        throw fail("exists", `There is a session ${ref}.`);
      objects.set(ref, { bytes: Buffer.concat(parts), modified: Date.now() });
      return openAt(ref, "write");
    },
    open: async (ref, mode) => openAt(find(ref), mode),
    async *list() {
      const sessions = [...objects].filter(([, { originalOf }]) => !originalOf).reverse();
      for (const [ref, object] of sessions.sort(([, a], [, b]) => b.modified - a.modified)) {
        if (objects.get(ref) !== object) continue;
        const view = openAt(ref, "read").view!;
        const modified = new Date(object.modified).toISOString();
        const listing = listingOf(view, { ref, modified, bytes: object.bytes.length });
        if (listing) yield listing;
      }
    },
    lease: async (ref, options) => leases.take(find(ref), options),
    async delete(named) {
      const ref = find(named);
      await (await leases.take(ref)).release();
      const removed = [...objects].filter(([key, { originalOf }]) => key === ref || originalOf === ref);
      for (const [key] of removed) objects.delete(key);
      return removed.map(([key]) => key);
    },
  };
}

storeConformance(
  {
    name: "a store made of published names",
    open: async () => ({ store: objectStore(), close: async () => undefined }),
  },
  { describe, test, expect },
);
