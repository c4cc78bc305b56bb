import { openSync, readFileSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type Frame, line, selectLine, span } from "../src/terminal/screen/frame.ts";
import { paintLines, Screen } from "../src/terminal/screen/screen.ts";
import { temporaryFolder } from "./espalier.ts";

const input = { setRawMode: () => input, resume: () => input, pause: () => input } as never;

/** A screen of 40 × 3, and a function that returns the bytes written since its last call. */
function screenOnFile() {
  const file = join(temporaryFolder(), "tty");
  const fd = openSync(file, "a");
  const read = () => {
    const text = readFileSync(file, "utf8");
    truncateSync(file);
    return text;
  };
  const screen = new Screen(input, { fd, columns: 40, rows: 3 }, { colours: true, ascii: false });
  return { screen, read, draw: (frame: Frame) => screen.draw(frame, 40) };
}

test("a screen is painted completely first, then only changed lines, and nothing after its end", () => {
  const { screen, read, draw } = screenOnFile();
  screen.enter();
  // A character of programmers' fonts: some programs use it, so it is written like any other.
  const frame = [line(span("one", "user"), " 漢字 🌊"), line("\ue0a0 main \uf001"), line("three")];
  draw(frame);
  const first = read();
  for (const text of ["\u001b[36mone\u001b[0m", " 漢字 🌊", "\ue0a0 main \uf001", "three"])
    expect(first).toContain(text);
  expect(first).not.toContain("\n");
  for (let change = 0; change < 5; change++) {
    draw([frame[0]!, line(`line two, ${change}`), frame[2]!]);
    const written = read();
    expect(written).toContain(`\u001b[2Hline two, ${change}`);
    expect(written).not.toContain("one");
    expect(written).not.toContain("three");
  }
  draw([frame[0]!, line("line two, 4"), frame[2]!]);
  expect(read()).toBe("");
  screen.clear();
  draw(frame);
  expect(read()).toContain("three");
  screen.leave();
  read();
  draw([line("a"), line("b"), line("c")]);
  expect(read()).toBe("");
});

test("the selected row has one background and one colour, except for search matches", () => {
  const row = line(span("you", "user"), " said ", span("that", "match"), span(" 3 days", "dim"));
  const painted = (colours: boolean) =>
    paintLines([selectLine(row, 40)], 40, { colours, ascii: false })[0]!
      .split("\u001b[0m")
      .slice(0, -1);
  const beginning = (text: string) => /^(?:\u001b\[[\d;]*m)+/.exec(text)![0];
  expect(painted(true).map(beginning)).toEqual([
    "\u001b[97;44m",
    "\u001b[97;44m",
    "\u001b[30;43m",
    "\u001b[97;44m",
    "\u001b[97;44m",
  ]);
  expect(new Set(painted(false).map(beginning))).toEqual(new Set(["\u001b[7m", "\u001b[4m"]));
});

test("with ASCII every column of a wide character is a question mark, and a joined one shifts nothing", () => {
  const ascii = (text: string) => paintLines([line(text)], 12, { colours: false, ascii: true })[0];
  expect(ascii("│ 漢字 ok")).toBe("| ???? ok   ");
  expect(ascii("🌊👩‍👩‍👧 ok")).toBe("???? ok     ");
  expect(ascii("cafe\u0301 ok")).toBe("caf? ok     ");
  expect(ascii("1\ufe0f\u20e3 ok")).toHaveLength(12);
});
