import { EntryScan, scanEntry } from "@espalier/session-tree";
import fc from "fast-check";
import { describe, expect, test } from "vitest";

const RUNS = { numRuns: Number(process.env["FUZZ"] ?? 3_000) };

/** What the scan finds in a line, or undefined when it is not sure. */
function scanned(line: string, before = "", after = "") {
  const bytes = Buffer.from(before + line + after);
  const start = Buffer.byteLength(before);
  const found = new EntryScan();
  if (!scanEntry(bytes, start, start + Buffer.byteLength(line), found)) return undefined;
  const text = (from: number, to: number) => bytes.subarray(from, to).toString();
  return {
    type: text(found.typeStart, found.typeEnd),
    id: text(found.idStart, found.idEnd),
    parentId: found.parentStart < 0 ? null : text(found.parentStart, found.parentEnd),
  };
}

/** JSON text of a value with spaces anywhere they may stand, and escapes nobody needs. */
function written(value: unknown, spaces: () => string, escapes: () => boolean): string {
  if (typeof value === "string") {
    const text = JSON.stringify(value);
    return escapes()
      ? text.replace(/[a-z]/g, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`)
      : text;
  }
  if (Array.isArray(value))
    return `[${spaces()}${value.map((item) => written(item, spaces, escapes) + spaces()).join(`,${spaces()}`)}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const fields = Object.entries(value).map(
    ([key, item]) =>
      `${written(key, spaces, escapes)}${spaces()}:${spaces()}${written(item, spaces, escapes)}${spaces()}`,
  );
  return `{${spaces()}${fields.join(`,${spaces()}`)}}`;
}

const key = fc.constantFrom(
  "type",
  "id",
  "parentId",
  "message",
  "timestamp",
  "",
  "a",
  "ids",
  "parentid",
  '"id":"x"',
  "ü",
  "typ\\e",
);
const inner = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom<unknown>(
      null,
      true,
      false,
      0,
      -1.5e300,
      "",
      "id",
      "e1",
      '"',
      "\\",
      '\\"',
      "}",
      "]}",
      '{"type":"a","id":"b","parentId":"c"}',
      "ü😀",
      "\u0000",
    ),
    fc.array(tie("value"), { maxLength: 3 }),
    fc.dictionary(key, tie("value"), { maxKeys: 3 }),
  ),
})).value;

const line = fc
  .record({
    fields: fc.uniqueArray(
      fc.tuple(
        key,
        fc.oneof({ weight: 2, arbitrary: fc.constantFrom<unknown>("e1", "message", null, "") }, inner),
      ),
      { selector: ([name]) => name, maxLength: 7 },
    ),
    spaces: fc.array(fc.constantFrom("", "", " ", "\t", "\r", "  "), { minLength: 1 }),
    escapes: fc.array(fc.integer({ min: 0, max: 19 }), { minLength: 1 }),
  })
  .map(({ fields, spaces, escapes }) => {
    let at = 0;
    return written(
      Object.fromEntries(fields),
      () => spaces[at++ % spaces.length]!,
      () => escapes[at++ % escapes.length] === 0,
    );
  });

describe("finding an entry's ids without parsing its line", () => {
  test("gives the same result as parsing, or reports that it is uncertain", () => {
    fc.assert(
      fc.property(
        line,
        fc.constantFrom("", "\n", '{"id":"x"}\n'),
        fc.constantFrom("", "\n", '":"}'),
        (text, before, after) => {
          const { type, id, parentId } = JSON.parse(text) as Record<string, unknown>;
          const found = scanned(text, before, after);
          if (found === undefined) return;
          expect(found).toEqual({ type, id, parentId });
        },
      ),
      RUNS,
    );
  });

  test("is certain for every line that Espalier writes", () => {
    fc.assert(
      fc.property(
        fc.constantFrom("message", "compaction", "unheard_of"),
        fc.stringMatching(/^[!-~]{1,20}$/).filter((id) => !/["\\]/.test(id)),
        fc.option(fc.constantFrom("e1", "0123456789ab")),
        fc.dictionary(
          key.filter(
            (name) =>
              !["type", "id", "parentId"].includes(name) && !name.includes("\\") && !name.includes('"'),
          ),
          inner,
        ),
        fc.boolean(),
        (type, id, parentId, rest, isLast) => {
          const entry = isLast ? { ...rest, parentId, type, id } : { type, id, parentId, ...rest };
          expect(scanned(JSON.stringify(entry))).toEqual({ type, id, parentId });
        },
      ),
      RUNS,
    );
  });

  test.each([
    ["an escape in the id", String.raw`{"type":"a","id":"\u0061","parentId":null}`],
    ["an escape in a key", String.raw`{"typ\u0065":"a","id":"b","parentId":null}`],
    ["a key that is repeated before all three are found", '{"type":"a","type":"b","id":"c","parentId":null}'],
    ["an id that is not text", '{"type":"a","id":5,"parentId":null}'],
    ["an id that is empty", '{"type":"a","id":"","parentId":null}'],
    ["a type that is null", '{"type":null,"id":"b","parentId":null}'],
    ["a parent that is a number", '{"type":"a","id":"b","parentId":5}'],
    ["an id beyond ASCII", '{"type":"a","id":"ü","parentId":null}'],
    ["a missing parent", '{"type":"a","id":"b"}'],
    ["no object", '["type","id","parentId"]'],
    ["a line that was cut", '{"type":"a","id":"b","parentId":null,"message":'],
    ["a parent's text that ends too late", '{"type":"a","id":"b","parentId":"c#,"timestamp":"x"}'],
    ["an entry joined to a number", '{"type":"a","n":1{"type":"b","id":"c","parentId":null}'],
    ["an entry joined to an open string", '{"type":"a","n":"text{"type":"b","id":"c","parentId":null}'],
    ["nothing", ""],
    ["a brace", "{"],
  ])("is uncertain for %s", (_name, text) => {
    expect(scanned(text)).toBeUndefined();
    expect(
      scanned(text, '{"type":"a","id":"b","parentId":null}\n', '\n"id":"x","parentId":null}'),
    ).toBeUndefined();
  });

  test("stops once all keys are found, at any length and depth of the rest", () => {
    const deep = "[".repeat(200_000) + "]".repeat(200_000);
    expect(scanned(`{"type":"a","id":"b","parentId":"c","deep":${deep}}`)).toEqual({
      type: "a",
      id: "b",
      parentId: "c",
    });
    expect(scanned(`{"deep":${deep},"type":"a","id":"b","parentId":"c"}`)).toEqual({
      type: "a",
      id: "b",
      parentId: "c",
    });
  });

  test("of the beginning of a line is certain only if it contains all three keys", () => {
    const whole = Buffer.from('{"type":"message","id":"abc","parentId":"def","message":{}}');
    const enough = whole.indexOf('"def",') + 6;
    for (let length = 0; length <= whole.length; length++) {
      const found = new EntryScan();
      const sure = scanEntry(whole.subarray(0, length), 0, length, found, true);
      expect(sure).toBe(length >= enough);
      if (sure) expect(whole.subarray(found.idStart, found.idEnd).toString()).toBe("abc");
    }
  });
});
