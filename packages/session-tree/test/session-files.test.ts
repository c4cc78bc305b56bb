import { mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { projectKey, sessionFileName } from "@espalier/session-tree/node";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";

const folder = mkdtempSync(join(tmpdir(), "espalier-"));
afterAll(() => rmSync(folder, { recursive: true }));

const SAFE = /^[A-Za-z0-9_-]{1,64}$/;

describe("the folder name of a project's sessions", () => {
  test.each([
    ["a verbatim path of Windows", String.raw`\\?\C:\Users\ada\garden`],
    ["a share", String.raw`\\server\share\garden`],
    ["a drive", "C:\\"],
    ["a drive in small letters", String.raw`c:\garden`],
    ["names that Windows reserves", String.raw`C:\con\nul`],
    ["more than 260 characters", `/${"deep/".repeat(80)}garden`],
    ["a name of 255 letters", `/${"g".repeat(255)}`],
    ["letters that are not ASCII", "/home/ada/Gärten/花园"],
    ["characters that no folder of Windows may have", '/a<b>:"|?*'],
    ["dots and spaces at the end", "/garden. "],
    ["the root", "/"],
  ])("is safe everywhere for %s", (_what, path) => {
    expect(projectKey(path)).toMatch(SAFE);
  });

  test("is safe for any path, and different for another path", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.string({ unit: "binary" }), (one, other) => {
        const paths = [one, other].map((path) => `/nowhere/${path.replaceAll("\0", "")}`);
        const keys = paths.map(projectKey);
        for (const key of keys) expect(key).toMatch(SAFE);
        // What UTF-8 cannot tell apart, a file system cannot either.
        const [first, second] = paths.map((path) => path.toWellFormed());
        expect(keys[0] === keys[1]).toBe(first === second);
      }),
    );
  });

  test("is that of the real folder for every path to it, and stays the same after the folder is removed", () => {
    const real = join(folder, "garden");
    mkdirSync(real);
    const key = projectKey(real);
    expect(projectKey(join(folder, ".", "garden", "..", "garden"))).toBe(key);
    renameSync(real, join(folder, "elsewhere"));
    expect(projectKey(real)).toBe(key);
  });
});

test("a file's name has the time, without characters that file names forbid, and the id", () => {
  const name = sessionFileName({ timestamp: "2026-01-01T00:00:00.000Z", id: "s1" });
  expect(name).toBe("2026-01-01T00-00-00-000Z_s1.jsonl");
  expect(() => sessionFileName({ timestamp: "", id: "../s1" })).toThrow(/cannot be part of a file name/);
});
