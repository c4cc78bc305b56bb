import { readdirSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";

const folder = join(import.meta.dirname, "..");
/** Needs a model to talk to, and has a test of its own. */
const TALKS = "10-your-own-agent.ts";
const examples = readdirSync(folder).filter((name) => /^\d\d-.*\.ts$/.test(name) && name !== TALKS);

test("there are examples", () => expect(examples.length).toBeGreaterThan(4));

// Every example ends in assertions: to run it is to test it.
test.each(examples)("%s runs", async (name) => {
  await import(pathToFileURL(join(folder, name)).href);
});
