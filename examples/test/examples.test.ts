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
/** Need a model to talk to, and have a test of their own. */
const TALKS = /^(?:1\d-agent-|20-server|3\d-)/;
const examples = readdirSync(folder).filter((name) => /^\d\d-.*\.ts$/.test(name) && !TALKS.test(name));

test("there are examples", () => expect(examples.length).toBeGreaterThan(4));

// Every example ends in assertions: to run it is to test it.
test.each(examples)("%s runs", async (name) => {
  await import(pathToFileURL(join(folder, name)).href);
});
