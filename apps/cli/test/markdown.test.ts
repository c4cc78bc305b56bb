import { SLOW_TEXTS } from "@espalier/session-tree/testing";
import fc from "fast-check";
import picocolors from "picocolors";
import stringWidth from "string-width";
import { expect, test } from "vitest";
import { MarkdownStream, renderMarkdown } from "../src/markdown/markdown.ts";
import { modelOf, Scratch } from "./terminal-scratch.ts";

const plain = picocolors.createColors(false);
const coloured = picocolors.createColors(true);
const drawn = (text: string, columns = 40) => renderMarkdown(text, { columns, colours: plain });

test("blocks follow each other, separated by an empty line", () => {
  expect(drawn("# Tide\n\nIt is *high*.\nStill.\n\n---\n\n> so\n> it is")).toEqual([
    "# Tide",
    "",
    "It is *high*.",
    "Still.",
    "",
    "─".repeat(40),
    "",
    "│ so",
    "│ it is",
  ]);
});

test("lists keep their markers, numbers and levels", () => {
  expect(drawn("- one\n- two\n  - inner\n\n9. nine\n10. ten\n\n- [x] done\n- [ ] open")).toEqual([
    "• one",
    "• two",
    "  • inner",
    "",
    " 9. nine",
    "10. ten",
    "",
    "☑ done",
    "☐ open",
  ]);
});

test("a table is laid out in the available columns", () => {
  const table = "| place | what it says of the tide |\n|--|--|\n| Wyk | it comes and it goes, as ever |\n";
  expect(drawn(table, 30)).toEqual([
    "place  what it says of the",
    "       tide",
    "─────  ───────────────────────",
    "Wyk    it comes and it goes,",
    "       as ever",
  ]);
});

test("a table that is too wide breaks no word that has room, and narrows equal columns alike", () => {
  const words =
    "| a | says | also |\n|--|--|--|\n| x | above fetchPredictions now | only for any days and all |\n";
  expect(drawn(words, 34)).toEqual([
    "a  says              also",
    "─  ────────────────  ─────────────",
    "x  above             only for any",
    "   fetchPredictions  days and all",
    "   now",
  ]);
  const equal = `| a | b | c |\n|--|--|--|\n${"| one two three four five six ".repeat(3)}|\n`;
  const [, rule = ""] = drawn(equal, 46);
  expect(rule.split("  ").map(({ length }) => length)).toEqual([14, 14, 14]);
  // Words that do not fit beside each other are broken.
  const long = `| a | b |\n|--|--|\n| ${"x".repeat(30)} | ${"y".repeat(30)} |\n`;
  expect(Math.max(...drawn(long, 40).map(({ length }) => length))).toBe(40);
});

test("markup is replaced by colours, and kept without colours", () => {
  expect(drawn("a **b** `c` [d](http://e)")).toEqual(["a **b** `c` d (http://e)"]);
  const [line] = renderMarkdown("a **b** `c`", { columns: 40, colours: coloured });
  expect(line).toBe(`a ${coloured.bold("b")} ${coloured.cyan("c")}`);
  expect(drawn("```js\nlet a;\n```")).toEqual(["```js", "let a;", "```"]);
});

test("control sequences are never shown", () => {
  const lines = drawn("\u001b[2Jgone \u202eturned\u0007\n\n```\n\u001b]0;title\u0007code\n```");
  expect(lines.join("\n")).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u202e]/);
});

const pieces = fc.array(
  fc.constantFrom(
    "- one\n",
    "2. two\n",
    "   more\n",
    "> said\n",
    "```js\n",
    "```\n",
    "    code\n",
    "\n",
    "\n\n",
    "| a | b |\n|--|--|\n",
    "| 1 | 2 |\n",
    "# Head\n",
    "---\n",
    "===\n",
    "words ",
    "**bold** ",
    "`tick ",
    "🌊潮 ",
    "<b>html</b>\n",
    "\r\n",
    "x".repeat(90),
  ),
  { maxLength: 30 },
);

test("no line is wider than the terminal, whatever the text", () => {
  fc.assert(
    fc.property(pieces, fc.integer({ min: 20, max: 60 }), (texts, columns) => {
      for (const line of renderMarkdown(texts.join(""), { columns, colours: coloured }))
        expect(stringWidth(line)).toBeLessThanOrEqual(columns);
    }),
  );
});

test("text in pieces looks like the whole text, wherever it was cut", () => {
  const words = (lines: string[]) => lines.filter((line) => line !== "");
  fc.assert(
    fc.property(pieces, fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 1 }), (texts, sizes) => {
      const text = texts.join("");
      const stream = new MarkdownStream();
      const settled: string[] = [];
      for (let at = 0, turn = 0; at < text.length; turn++) {
        const size = sizes[turn % sizes.length]!;
        settled.push(stream.take(text.slice(at, at + size)));
        at += size;
      }
      settled.push(stream.end());
      expect(settled.join("")).toBe(text.replaceAll("\r", ""));
      expect(words(settled.flatMap((part) => (part === "" ? [] : drawn(part))))).toEqual(words(drawn(text)));
    }),
  );
});

test("a block is shown as soon as later text cannot change it", () => {
  const stream = new MarkdownStream();
  expect(stream.take("The tide.\n")).toBe("");
  expect(stream.take("\n")).toBe("The tide.\n\n");
  expect(stream.take("- one\n\n")).toBe("");
  expect(stream.take("```js\n")).toBe("- one\n\n");
  expect(stream.take("let a;\n")).toBe("");
  expect(stream.take("```\n")).toBe("```js\nlet a;\n```\n");
});

test.each([1, 50, 98, 99, 100, 101, 8_000])("no content of %i levels of nesting is lost", (levels) => {
  for (const mark of ["> ", "- ", "1. "])
    expect(
      drawn(`${mark.repeat(levels)}end`)
        .join("")
        .replace(/[\s│]/g, ""),
    ).toMatch(/end$/);
});

test("escapes in markup cannot produce control sequences", () => {
  const named =
    "a &#8238;b&#x202E; &#27;[2J &#155; <http://a/%E2%80%AE%1B> [c](http://a/&#8238;) ![d](&#8238;)";
  for (const text of [named, `# ${named}`, `| a |\n|--|\n| ${named} |`, `\`\`\`&#8238;&#10;x\ncode\n\`\`\``])
    expect(drawn(text).join("")).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202e]/);
});

test("a text that is built to be slow is shown in the terminal", { timeout: 900_000 }, () => {
  for (const { name, text } of SLOW_TEXTS) {
    const said = { role: "user", content: text, timestamp: 1 };
    const entry = { type: "message", id: "slow", parentId: null, timestamp: "", message: said };
    const { screen } = new Scratch(100, 40).open(modelOf([entry])).keys("z");
    expect(screen, name).toContain("you");
  }
});

test("a text that is built to be slow is streamed in a chat", { timeout: 900_000 }, () => {
  for (const { name, text } of SLOW_TEXTS) {
    const stream = new MarkdownStream();
    const parts = [stream.take(text), stream.end()];
    expect(parts.join(""), name).toBe(text);
    for (const part of parts) drawn(part, 100);
  }
});
