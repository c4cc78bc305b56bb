import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

const pages = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", "*.md"], {
  cwd: ROOT,
  encoding: "utf8",
})
  .trim()
  .split("\n");

test("there are pages to check", () => expect(pages).toContain("README.md"));

test.each(pages)("every link of %s leads to an existing file", (page) => {
  const text = readFileSync(join(ROOT, page), "utf8").replace(/^```.*?^```/gms, "");
  const links = [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = ""]) => link);
  const relative = links.filter((link) => !/^(https?:|mailto:|#)/.test(link));
  // A page may be a link itself; its own links are read where it is.
  const folder = dirname(realpathSync(join(ROOT, page)));
  const dead = relative.filter((link) => !existsSync(join(folder, link.split("#")[0] ?? "")));
  expect(dead).toEqual([]);
});

test("a linked name is in the linked source", () => {
  const named = pages.flatMap((page) => {
    const text = readFileSync(join(ROOT, page), "utf8").replace(/^```.*?^```/gms, "");
    const links = [...text.matchAll(/\[`(?:\w+\.)?(\w+)`\]\(([^)\s#]+\.ts)\)/g)];
    return links.map(([, name = "", link = ""]) => ({ name, file: join(dirname(page), link) }));
  });
  expect(named.length).toBeGreaterThan(10);
  const lost = named.filter(
    ({ name, file }) => !new RegExp(`\\b${name}\\b`).test(readFileSync(join(ROOT, file), "utf8")),
  );
  expect(lost).toEqual([]);
});
