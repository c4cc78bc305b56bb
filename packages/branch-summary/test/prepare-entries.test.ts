import { prepareBranchEntries } from "@espalier/branch-summary";
import { type Entry, messageText } from "@espalier/session-tree";
import { growEntries } from "@espalier/session-tree/testing";
import fc from "fast-check";
import { describe, expect, test } from "vitest";

const words = (tokens: number, letter = "x") => letter.repeat(tokens * 4);
const told = (entries: readonly Entry[], budget?: number) => prepareBranchEntries(entries, budget);
const sources = (tree: string, budget?: number) => told(growEntries(tree), budget).sources.join(" ");

describe("a budget for messages", () => {
  test("takes the newest messages, in order, and lists the others", () => {
    const tree = `u1("${words(10)}") > a1("${words(10)}") > u2("${words(10)}") > a2("${words(10)}")`;
    expect(told(growEntries(tree), 25)).toMatchObject({
      sources: ["u2", "a2"],
      dropped: ["u1", "a1"],
      totalTokens: 20,
    });
    expect(told(growEntries(tree), 40)).toMatchObject({ dropped: [], totalTokens: 40 });
    expect(told(growEntries(tree))).toMatchObject({ dropped: [], totalTokens: 40 });
  });

  test("always includes the newest message: its request is made to fit", () => {
    const tree = `u1 > a1("${words(1_000)}")`;
    expect(told(growEntries(tree), 10)).toMatchObject({ sources: ["a1"], dropped: ["u1"] });
  });

  test("counts no more of a long result than a transcript shows", () => {
    const tree = `u1 > c1 > t1("${words(500_000)}") > a1`;
    const { sources: taken, totalTokens } = told(growEntries(tree), 1_000);
    expect(taken).toEqual(["u1", "c1", "t1", "a1"]);
    expect(totalTokens).toBeLessThan(600);
  });

  test("property: takes the end of the messages, which fits unless it is one message", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(40), { maxLength: 12 }), fc.nat(200), (sizes, budget) => {
        const tree = sizes.map((size, at) => `u${at + 1}("${words(size)}")`).join(" > ");
        const entries = tree === "" ? [] : growEntries(tree);
        const prepared = told(entries, budget);
        expect([...prepared.dropped, ...prepared.sources]).toEqual(entries.map(({ id }) => id));
        expect(prepared.messages.map(messageText)).toEqual(
          prepared.sources.map((id) => words(sizes[Number(id.slice(1)) - 1]!)),
        );
        expect(prepared.totalTokens <= budget || prepared.sources.length === 1).toBe(true);
      }),
    );
  });
});

describe("a compaction on the branch", () => {
  const before = `u1("${words(30)}") > a1("${words(30)}") > u2("${words(10)}") > a2("${words(10)}")`;
  const tree = `${before} > k1(u2 "It was said.") > u3 > a3`;

  test("is replaced by its messages if they fit, and its summary is left out", () => {
    expect(sources(tree)).toBe("u1 a1 u2 a2 u3 a3");
  });

  test("gives its summary if its messages do not fit, and they are left out", () => {
    expect(sources(tree, 40)).toBe("k1 u2 a2 u3 a3");
    expect(sources(tree, 20)).toBe("k1 a2 u3 a3");
  });

  test("whose span is before the branch gives nothing", () => {
    const branch = growEntries(tree).filter(({ id }) => !["u1", "a1", "u2"].includes(id));
    expect(told(branch).sources).toEqual(["a2", "u3", "a3"]);
    expect(told(branch, 5)).toMatchObject({ sources: ["u3", "a3"], dropped: ["a2"] });
  });

  test("gives its summary only if it is the newest of two", () => {
    const twice = `${before} > k1(u2 "first") > u3("${words(30)}") > a3 > k2(a3 "second") > u4`;
    expect(sources(twice, 20)).toBe("k2 a3 u4");
  });

  test("that keeps nothing covers all messages before it", () => {
    expect(sources(`${before} > k1 > u3`, 20)).toBe("k1 u3");
  });

  test("that removed entries from the middle gives its summary, the only text with them", () => {
    const middle = `${before} > k1(u1 "summary") > e1(a1) > e2(u2) > u3`;
    expect(sources(middle)).toBe("k1 u1 a2 u3");
  });

  test("followed by an entry that the user hid gives the messages, because no summary covers that entry", () => {
    const hidden = growEntries(`${before} > k1(u2 "summary") > e1(a2) > u3`).map((entry) =>
      entry.id === "e1" ? ({ ...entry, reason: "manual" } as Entry) : entry,
    );
    expect(told(hidden).sources).toEqual(["u1", "a1", "u2", "u3"]);
  });
});

describe("file lists", () => {
  const lists = (entries: readonly Entry[], budget?: number) => {
    const { read, written, edited } = told(entries, budget).fileOps;
    return [...read, ...written, ...edited].sort();
  };

  test("include the whole branch, also messages that did not fit", () => {
    expect(lists(growEntries(`c1 > t1 > c2 > t2 > a1("${words(100)}")`), 10)).toEqual(["c1.txt", "c2.txt"]);
  });

  test("include those of compactions and branch summaries on it, by any author", () => {
    const [first, second, third] = growEntries(
      'k1(k1 "Told.\\n\\n<read-files>\\nlisted.ts\\n</read-files>") > s1(x "Tried.") > u1',
    );
    const recorded = { ...second!, details: { modifiedFiles: ["branch.ts"] } };
    const own = { ...first!, fromHook: true, details: { readFiles: ["hook.ts"] } };
    expect(lists([own, recorded, third!])).toEqual(["branch.ts", "hook.ts", "listed.ts"]);
  });

  test("come from the declarations of tools", () => {
    const tool = { name: "read", files: () => ({ edited: ["declared.ts"] }) };
    const { fileOps } = prepareBranchEntries(growEntries("c1 > t1"), undefined, [tool]);
    expect([...fileOps.edited]).toEqual(["declared.ts"]);
  });
});
