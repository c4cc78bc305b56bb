import type { EspalierError } from "@espalier/jsonl-stream";
import type { SessionHeader } from "../../entry/entry.ts";
import type { SessionLog, SessionStore } from "../../store/store.ts";

/** A store to test. */
export interface StoreUnderTest {
  /** Name of the store, for the names of its tests. */
  name: string;
  /** Opens an empty store. */
  open(): Promise<{
    store: SessionStore;
    /** Closes and removes the store. */
    close(): Promise<void>;
  }>;
}

/** Functions of a test runner that the suite needs, such as those of vitest. */
export interface TestTools {
  /** Defines a group of tests. */
  describe(name: string, body: () => void): unknown;
  /** Defines one test. The test fails when its promise is rejected. */
  test(name: string, body: () => Promise<void>): unknown;
  /** Begins an assertion. */
  expect(actual: unknown): Expectation;
}

/** Assertions that the suite uses. */
export interface Expectation {
  /** Passes when both are identical, by `Object.is`. */
  toBe(expected: unknown): unknown;
  /** Passes when all fields are equal, at any depth. */
  toEqual(expected: unknown): unknown;
  /** Passes when the named fields are equal. */
  toMatchObject(expected: object): unknown;
  /** Assertion on the error with which a promise is rejected. */
  rejects: {
    /** Passes when the named fields of the error are equal. */
    toMatchObject(expected: object): Promise<unknown>;
  };
}

/** A test runner that passes a store to each test. */
export interface Trial {
  test(name: string, body: (store: SessionStore) => Promise<void>): void;
  expect: TestTools["expect"];
}

/** Returns the header of a session of the current format, with these fields. */
export const header = (id: string, fields: Partial<SessionHeader> = {}): SessionHeader => ({
  type: "session",
  version: 3,
  id,
  timestamp: "2026-01-01T00:00:00.000Z",
  cwd: "/garden",
  ...fields,
});

/** Returns the line of a `custom` entry. Default: a root, with its id as data. */
export const line = (id: string, parentId: string | null = null, data: unknown = id): string =>
  JSON.stringify({
    type: "custom",
    id,
    parentId,
    timestamp: "2026-01-01T00:00:01.000Z",
    customType: "test",
    data,
  });

/** Returns all bytes of a log. */
export async function bytesOf(log: SessionLog): Promise<Uint8Array> {
  const view = await log.load();
  return view.read(0, view.size);
}

/** Returns the lines of a log. */
export async function linesOf(log: SessionLog): Promise<string[]> {
  const text = new TextDecoder().decode(await bytesOf(log));
  return text.split("\n").filter((each) => each !== "");
}

/** Returns the code of the error with which a promise is rejected; an empty text for a fulfilled promise. */
export const codeOf = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => "",
    ({ code }: EspalierError) => code,
  );
