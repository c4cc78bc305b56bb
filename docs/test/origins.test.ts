import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { carriedNames, carriedPaths, root, unreadable } from "./carried-names.ts";
import { ExportedTypes } from "./exported-types.ts";

/** The packages of the table, by the words that stand for them there. */
const doors: Readonly<Record<string, () => Promise<object>>> = {
  agent: () => import("@espalier/agent"),
  "branch-summary": () => import("@espalier/branch-summary"),
  compaction: () => import("@espalier/compaction"),
  engine: () => import("@espalier/engine"),
  "jsonl-stream": () => import("@espalier/jsonl-stream"),
  policies: () => import("@espalier/compaction/policies"),
  "policies/node": () => import("@espalier/compaction/node"),
  "session-tree": () => import("@espalier/session-tree"),
  summarizer: () => import("@espalier/summarizer"),
};

const values = carriedNames.filter(({ isType }) => !isType);
const types = carriedNames.filter(({ isType }) => isType);

describe("names that origins.md lists are exported", () => {
  test("every reference in the table can be parsed", () => {
    expect(unreadable).toEqual([]);
    expect(carriedNames.filter(({ door }) => !doors[door]).map(({ text }) => text)).toEqual([]);
    expect(values.length).toBeGreaterThan(60);
    expect(types.length).toBeGreaterThan(10);
  });

  test.each(values)("$text is exported", async ({ door, path, value }) => {
    const found = memberOf(await doors[door]!(), path);
    expect(found.exists).toBe(true);
    if (value !== undefined) expect(found.value).toEqual(JSON.parse(value));
  });

  test("every type is exported, with its members", () => {
    const exported = new ExportedTypes(Object.keys(doors));
    expect(exported.has("policies", ["CompactResult", "noSuchMember"])).toBe(false);
    const missing = types.filter(({ door, path }) => !exported.has(door, path));
    expect(missing.map(({ text }) => text)).toEqual([]);
  });

  test.each(carriedPaths)("%s is in the repository", (path) => {
    expect(existsSync(join(root, path))).toBe(true);
  });
});

/** What a path of names leads to: members of values, and methods of classes. */
function memberOf(start: unknown, path: readonly string[]): { exists: boolean; value?: unknown } {
  let value = start;
  for (const name of path) {
    const holder = [value, (value as { prototype?: unknown } | undefined)?.prototype].find(
      (candidate) => candidate !== null && typeof candidate === "object" && name in candidate,
    );
    if (holder === undefined) return { exists: false };
    // A getter of a class answers on instances alone; that it is there is enough.
    const isGetter = holder !== value && getterOf(holder as object, name) !== undefined;
    value = isGetter ? undefined : (holder as Record<string, unknown>)[name];
  }
  return { exists: true, value };
}

/** Getter of a class, or of one that it extends. */
function getterOf(prototype: object | null, name: string): unknown {
  for (let at = prototype; at !== null; at = Object.getPrototypeOf(at)) {
    const found = Object.getOwnPropertyDescriptor(at, name);
    if (found) return found.get;
  }
  return undefined;
}
