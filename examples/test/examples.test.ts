import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, expect, test } from "vitest";

// What an example removes when its process ends, a test has to remove itself.
const work = mkdtempSync(join(tmpdir(), "espalier-examples-"));
process.env["TMPDIR"] = work;
afterAll(() => rmSync(work, { recursive: true }));

const folder = join(import.meta.dirname, "..");
/** Needs a model to talk to, and has a test of its own. */
const TALKS = "10-your-own-agent.ts";
const examples = readdirSync(folder).filter((name) => /^\d\d-.*\.ts$/.test(name) && name !== TALKS);

test("there are examples", () => expect(examples.length).toBeGreaterThan(4));

// Every example ends in assertions: to run it is to test it.
test.each(examples)("%s runs", async (name) => {
  await import(pathToFileURL(join(folder, name)).href);
});
