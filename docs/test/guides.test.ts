import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { engineHooks } from "espalier/extend";
import { describe, expect, test } from "vitest";
import { desk, fencesOf, ROOT } from "./desk.ts";

const GUIDES = join(ROOT, "docs/guides");

/**
 * Guides whose programs have tests of their own, or need agents that are not here, and the table of contents, whose commands
 * belong to a clone.
 */
const ELSEWHERE: ReadonlySet<string> = new Set([
  "README.md",
  "put-it-under-your-agent.md",
  "import.md",
  "inside-your-agent.md",
]);
const guides = readdirSync(GUIDES).filter((name) => name.endsWith(".md") && !ELSEWHERE.has(name));

describe.each(guides)("%s", (guide) => {
  test("works as written, from its first line to its last", async () => {
    const here = await desk();
    for (const { language, text } of fencesOf(join(GUIDES, guide))) {
      if (language === "sh") here.type(text);
      if (language === "json") JSON.parse(text);
      if (language !== "ts") continue;
      const name = /^\/\/ ([\w-]+\.ts)\n/.exec(text)?.[1];
      expect(name, "an example begins with the name of its file").toBeDefined();
      here.put(name!, text);
      if (!text.includes("export default")) here.run(text);
    }
  }, 240_000);
});

test("the programs of all pages import what a reader can install", () => {
  const pages = [GUIDES, join(ROOT, "docs")].flatMap((folder) =>
    readdirSync(folder)
      .filter((name) => name.endsWith(".md"))
      .map((name) => join(folder, name)),
  );
  for (const page of [...pages, join(ROOT, "README.md")])
    for (const { text } of fencesOf(page)) expect(text, page).not.toContain('from "@espalier/');
});

test("the table of contents has every guide", () => {
  const contents = readFileSync(join(GUIDES, "README.md"), "utf8");
  const names = readdirSync(GUIDES).filter((name) => name !== "README.md");
  for (const name of names) expect(contents).toContain(`](${name})`);
});

test("the guide for extensions has a row for every hook", () => {
  const guide = readFileSync(join(GUIDES, "write-an-extension.md"), "utf8");
  const [, table = ""] = guide.split("## Every hook\n");
  const rows = table.split("\n\nThe type")[0]!.matchAll(/^\|([^|]+)\|/gm);
  const named = [...rows].flatMap(([, names = ""]) =>
    [...names.matchAll(/`(\w+)`/g)].map(([, name]) => name),
  );
  expect(named.toSorted()).toEqual(Object.keys(engineHooks).toSorted());
});
