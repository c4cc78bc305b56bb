import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";

const home = fileURLToPath(new URL("..", import.meta.url));
const spec = readFileSync(`${home}SPEC.md`, "utf8");
const chapters = spec.split("\n## ").slice(1);
const suite = readdirSync(`${home}src/testing/conformance`).map((file) =>
  readFileSync(`${home}src/testing/conformance/${file}`, "utf8"),
);

/** The lines of a chapter that name a test: where it is (here, or in the package in front of the file), and its name. */
const namedIn = (chapter: string) =>
  chapter
    .split("\n")
    .filter((line) => line.startsWith("- "))
    .map((line) => /^- (?:`((?:[\w-]+\/)?[\w-]+\.test\.ts)`|(every store)): "(.+)"$/.exec(line) ?? line);

/** The path of a test file; `engine/x.test.ts` is one of the package `engine`. */
const placeOf = (file: string) =>
  file.includes("/") ? `${home}../${file.replace("/", "/test/")}` : `${home}test/${file}`;

describe("SPEC.md", () => {
  test("has the thirteen invariants in their order", () => {
    expect(chapters.map((chapter) => chapter.split(" ")[0])).toEqual(
      Array.from({ length: 13 }, (_, at) => `T${at + 1}`),
    );
  });

  test.each(chapters.map((chapter) => [chapter.split("\n")[0]!, chapter]))(
    "names tests that exist: %s",
    (_title, chapter) => {
      const named = namedIn(chapter);
      for (const line of named) {
        if (typeof line === "string") throw new Error(`This line names no test: ${line}`);
        const [, file, , name] = line;
        const sources = file ? [readFileSync(placeOf(file), "utf8")] : suite;
        expect(
          sources.some((source) => source.includes(`"${name}"`)),
          `${file ?? "the conformance suite"}: ${name}`,
        ).toBe(true);
      }
      expect(named.length).toBeGreaterThan(0);
    },
  );
});
