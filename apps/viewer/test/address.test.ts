import fc from "fast-check";
import { expect, test } from "vitest";
import { formatAddress, parseAddress, TABS } from "../src/page/app/address.ts";

const name = fc.string({
  minLength: 1,
  maxLength: 20,
  unit: fc.constantFrom(..."abcXYZ019._~-@ /%äé日🌊\ufeff"),
});

test("a formatted address is parsed to the same values", () => {
  const parts = fc.record(
    { session: name, tab: fc.constantFrom(...TABS), entry: name, branch: name, other: name },
    { requiredKeys: ["session", "tab"] },
  );
  fc.assert(
    fc.property(parts, (address) => {
      expect(parseAddress(formatAddress(address))).toEqual(address);
    }),
  );
});

test("any text after the # is parsed without an error", () => {
  fc.assert(
    fc.property(fc.string(), (hash) => {
      expect(TABS).toContain(parseAddress(`#${hash}`).tab);
    }),
  );
  expect(parseAddress("#/s/%E0%A4%A/x?entry=%").session).toBeTypeOf("string");
});
