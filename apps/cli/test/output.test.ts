import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { Output } from "../src/shell.ts";

/** Pieces of a text, after which making the next one fails where `fails`. */
function* pieces(count: number, fails: boolean): Generator<string> {
  for (let at = 0; at < count; at++) yield `${String(at).padStart(9)}é`.repeat(1_000);
  if (fails) throw new Error("The next piece cannot be made.");
}

test.each([
  ["little", 10],
  ["more than is kept in memory", 4_000],
])("a text of %s is printed only when all of it was made", async (_much, count) => {
  const failing = new PassThrough();
  const failed = new Output(failing as unknown as NodeJS.WriteStream);
  await expect(failed.writeWhole(pieces(count, true))).rejects.toThrow("cannot be made");
  failing.end();
  expect(await text(failing)).toBe("");

  const stream = new PassThrough();
  const printed = text(stream);
  const output = new Output(stream as unknown as NodeJS.WriteStream);
  await output.write("before ");
  await output.writeWhole(pieces(count, false));
  stream.end();
  expect(await printed).toBe(`before ${[...pieces(count, false)].join("")}`);
});
