import { appendFileSync } from "node:fs";
import { encodeLines } from "@espalier/jsonl-stream";
import { encodeBriefly, openAppendFile } from "@espalier/jsonl-stream/node";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { failure } from "./failure.ts";
import { existing, temporaryFolder } from "./temporary-folder.ts";

const { path } = temporaryFolder();

describe("lines encoded into reused memory", () => {
  test("have the same bytes as otherwise", () => {
    const line = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.integer({ min: 0, max: 90_000 }).map((length) => "é".repeat(length)),
    );
    fc.assert(
      fc.property(fc.array(line), (given) => {
        const lines = given.map((text) => JSON.stringify(text));
        expect(Buffer.compare(encodeBriefly(lines), encodeLines(lines))).toBe(0);
      }),
      { numRuns: 300 },
    );
    expect(failure(() => encodeBriefly(["two\nlines"])).code).toBe("invalid-entry");
  });

  test("leave no data in a file that remembers its end", () => {
    const name = path();
    const file = openAppendFile(existing(name), { mode: "write" });
    file.append(encodeBriefly(["a line of its own, longer than what is remembered"]));
    encodeBriefly(["another line, which is never written, in the same memory"]);
    appendFileSync(name, "rival\n");
    expect(file.append(encodeBriefly(["last"]))).toMatchObject({ length: 5 });
    file.close();
  });
});
