import { readFileSync } from "node:fs";
import { WRITER } from "@espalier/session-tree";
import { expect, test } from "vitest";

test("new sessions name the version of the package that writes them", () => {
  const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
  expect(WRITER).toBe(`espalier/${version}`);
});
