import type { EspalierError } from "@espalier/jsonl-stream";
import type { SessionHeader } from "../../entry/entry.ts";
import type { SessionLog, SessionStore } from "../../store/store.ts";

/** A store to test, and how to get a fresh one. */
export interface StoreUnderTest {
  /** Prefix of the names of its tests. */
  name: string;
  /** Opens an empty store. */
  open(): Promise<{
    store: SessionStore;
    /** Removes it. */
    close(): Promise<void>;
  }>;
}

/** The functions of a test runner that the suite needs; vitest's fit. */
export interface TestTools {
  /** A group of tests. */
  describe(name: string, body: () => void): unknown;
  /** One test; it fails when its promise is rejected. */
  test(name: string, body: () => Promise<void>): unknown;
  /** Begins an assertion. */
  expect(actual: unknown): Expectation;
}

/** The assertions that the suite makes. */
export interface Expectation {
  /** Identical, by `Object.is`. */
  toBe(expected: unknown): unknown;
  /** Equal in all fields, at any depth. */
  toEqual(expected: unknown): unknown;
  /** Equal in the fields that are named. */
  toMatchObject(expected: object): unknown;
  /** Assertion on the error with which a promise is rejected. */
  rejects: {
    /** The error equals `expected` in the fields that are named. */
    toMatchObject(expected: object): Promise<unknown>;
  };
}

/** A runner whose tests are handed a store. */
export interface Trial {
  test(name: string, body: (store: SessionStore) => Promise<void>): void;
  expect: TestTools["expect"];
}

/** The header of a session of the current format, as its fields say. */
export const header = (id: string, fields: Partial<SessionHeader> = {}): SessionHeader => ({
  type: "session",
  version: 3,
  id,
  timestamp: "2026-01-01T00:00:00.000Z",
  cwd: "/garden",
  ...fields,
});

/** The line of a `custom` entry: a root where no parent is named; it says its id where nothing else is given. */
export const line = (id: string, parentId: string | null = null, data: unknown = id): string =>
  JSON.stringify({
    type: "custom",
    id,
    parentId,
    timestamp: "2026-01-01T00:00:01.000Z",
    customType: "test",
    data,
  });

/** All bytes of a log. */
export async function bytesOf(log: SessionLog): Promise<Uint8Array> {
  const view = await log.load();
  return view.read(0, view.size);
}

/** The lines of a log. */
export async function linesOf(log: SessionLog): Promise<string[]> {
  const text = new TextDecoder().decode(await bytesOf(log));
  return text.split("\n").filter((each) => each !== "");
}

/** The code of the error that a promise is rejected with; empty for one that is kept. */
export const codeOf = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => "",
    ({ code }: EspalierError) => code,
  );
