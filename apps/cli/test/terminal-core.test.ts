import fc from "fast-check";
import { expect, test } from "vitest";
import { view } from "../src/terminal/open-terminal.ts";
import { lineWidth } from "../src/terminal/screen/frame.ts";
import { readKeys } from "../src/terminal/screen/keys.ts";
import { paintLines } from "../src/terminal/screen/screen.ts";
import { frameHeight } from "../src/terminal/view/layout.ts";
import { demoModel, modelOf, Scratch } from "./terminal-scratch.ts";

const KEYS = [
  ..."kj<>.][po}{ fZ/nN123JKzguFlRcMmdyYe?q",
  ...["up", "down", "left", "right", "home", "end", "pageup", "pagedown", "wheel-up", "wheel-down"],
  ...["enter", "escape", "tab", "backtab", "backspace", "delete", "ctrl-c", "ctrl-s", "ctrl-w", "ctrl-l"],
];

const anyKey = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom(...KEYS) },
  { weight: 1, arbitrary: fc.string({ unit: "grapheme", minLength: 1, maxLength: 1 }) },
);

/** Trees of any shape: what follows what, and of which kind. */
const anyTree = fc
  .array(fc.record({ parent: fc.nat(1_000), kind: fc.nat(9), text: fc.string({ maxLength: 40 }) }), {
    maxLength: 60,
  })
  .map((drawn) =>
    modelOf(
      drawn.map(({ parent, kind, text }, at) => {
        const fields = {
          id: `entry${at}`,
          parentId: at === 0 || parent % 17 === 0 ? null : `entry${parent % at}`,
          timestamp: "2026-01-01T00:00:00.000Z",
        };
        const said = (message: object) => ({
          type: "message",
          ...fields,
          message: { timestamp: 1, ...message },
        });
        if (kind < 3) return said({ role: "user", content: text });
        if (kind < 5)
          return said({
            role: "assistant",
            content: [{ type: "text", text }],
            provider: "p",
            model: "m",
            stopReason: "stop",
          });
        if (kind === 5)
          return said({
            role: "toolResult",
            toolCallId: "c",
            toolName: text,
            content: [{ type: "text", text }],
            isError: false,
          });
        if (kind === 6)
          return {
            type: "compaction",
            ...fields,
            summary: text,
            firstKeptEntryId: fields.id,
            tokensBefore: 1,
          };
        if (kind === 7)
          return { type: "label", ...fields, targetId: `entry${parent % Math.max(1, at)}`, label: text };
        if (kind === 8) return { type: "branch_summary", ...fields, summary: text, fromId: "entry0" };
        return { type: "custom", ...fields, customType: text, data: { text } };
      }),
    ),
  );

const anySize = fc.record({
  columns: fc.integer({ min: 20, max: 200 }),
  rows: fc.integer({ min: 5, max: 60 }),
});

test("no sequence of keys throws, the cursor is always on a visible row, and the screen is always full", () => {
  const demo = demoModel();
  fc.assert(
    fc.property(
      fc.oneof(fc.constant(demo), anyTree),
      anySize,
      fc.array(fc.oneof({ weight: 9, arbitrary: anyKey }, { weight: 1, arbitrary: anySize }), {
        maxLength: 80,
      }),
      (model, size, happened) => {
        const scratch = new Scratch(size.columns, size.rows).open(model);
        for (const one of happened) {
          if (typeof one === "string") scratch.keys(one);
          else scratch.happen({ type: "resize", ...one });
          // An act that is under way would be over some time.
          if (scratch.state.work) scratch.happen({ type: "told", message: "Done." });
          const { tree, size: now } = scratch.state;
          const frame = view(scratch.state);
          expect(frame).toHaveLength(frameHeight(scratch.state));
          expect(frame.filter((line) => lineWidth(line) !== now.columns)).toEqual([]);
          if (!tree || tree.cursor < 0) continue;
          const position = tree.view.model.order.positions[tree.cursor]!;
          expect(tree.view.lines).toContain(position);
          if (!scratch.state.dialog && !tree.isReading) expect(scratch.selected).not.toBe("");
        }
      },
    ),
    { numRuns: 200 },
  );
});

test("a result, a thought and a call of many thousand lines are shown in full", () => {
  const text = Array.from({ length: 190_000 }, (_, at) => `${at % 1_000}`).join("\n");
  const said = { role: "assistant", provider: "p", model: "m", stopReason: "stop", timestamp: 1 };
  const result = { role: "toolResult", toolCallId: "c", toolName: "count", isError: false, timestamp: 1 };
  const messages = [
    { ...result, content: [{ type: "text", text }] },
    { ...said, content: [{ type: "thinking", thinking: text }] },
    { ...said, content: [{ type: "toolCall", id: "c", name: "write", arguments: { text } }] },
  ];
  for (const message of messages) {
    const entry = {
      type: "message",
      id: "m",
      parentId: null,
      timestamp: "2026-01-01T00:00:00.000Z",
      message,
    };
    const scratch = new Scratch(80, 40).open(modelOf([entry])).keys("z");
    expect(scratch.screen).toMatch(/ 1899\d\d more ↓/);
  }
});

test("a notice of several lines never hides the row of the cursor", () => {
  for (const [columns, rows] of [
    [20, 5],
    [20, 9],
    [110, 5],
    [110, 9],
  ] as const) {
    const scratch = new Scratch(columns, rows).open(demoModel());
    for (const key of ["home", "down", "down", "end", "up", "up"]) {
      scratch.keys(key);
      scratch.happen({ type: "told", message: "A long notice. ".repeat(30) });
      expect(scratch.selected).not.toBe("");
    }
  }
});

test("an undo that was confirmed in a smaller terminal leaves the cursor on the screen", () => {
  const scratch = new Scratch(20, 9).open(demoModel());
  scratch.keys("u");
  scratch.happen({ type: "resize", columns: 20, rows: 5 });
  scratch.keys("u");
  scratch.happen({ type: "told", message: "Done." });
  expect(scratch.selected).not.toBe("");
});

test("all text of a session reaches the terminal without control characters other than those of the painting", () => {
  const hostile = "\u001b]52;c;aGk=\u0007\u001b[2J\u009b31m\u202egnp.\u0000\r\u0008";
  const model = modelOf([
    {
      type: "message",
      id: "a1234567",
      parentId: null,
      timestamp: hostile,
      message: { role: "user", content: `# ${hostile}`, timestamp: 1 },
    },
    { type: hostile, id: "b1234567", parentId: "a1234567", timestamp: "", [hostile]: hostile },
    {
      type: "label",
      id: "c1234567",
      parentId: "b1234567",
      timestamp: "",
      targetId: "a1234567",
      label: hostile,
    },
    { type: "session_info", id: "d1234567", parentId: "b1234567", timestamp: "", name: hostile },
    {
      type: "message",
      id: `e${hostile}`,
      parentId: "b1234567",
      timestamp: "",
      message: {
        role: "toolResult",
        toolCallId: "x",
        toolName: hostile,
        content: [{ type: "text", text: hostile }],
        isError: true,
        timestamp: 1,
      },
    },
  ]);
  const scratch = new Scratch(120, 30).open(model).keys("f", "f", "f", "f", "<");
  for (const key of ["down", "down", "enter", "z", "down", "escape", "?", "escape"]) {
    scratch.keys(key);
    const painted = paintLines(view(scratch.state), 120, { colours: true, ascii: false }).join("\n");
    expect(painted.replace(/\u001b\[[\d;]*m|\n/g, "")).not.toMatch(
      /[\u0000-\u001f\u007f-\u009f\u202a-\u202e]/,
    );
  }
});

test("with ASCII all output is ASCII, and without colours there are no colour codes", () => {
  const scratch = new Scratch(100, 40).open(demoModel()).keys("<");
  const painted = paintLines(view(scratch.state), 100, { colours: false, ascii: true }).join("\n");
  expect(painted.replace(/\u001b\[[01247]m/g, "")).toMatch(/^[\n -~]*$/);
});

test("keys are parsed from a terminal's bytes, however they are split", () => {
  const sent =
    "a\u001b[A\u001b[<65;10;5M\u001bOB\r\u007f\u001b[200~two\nlines\u001b[201~\u0003é🌊\u001b[<0;4;7M";
  const whole = readKeys(sent).inputs;
  expect(whole.map((one) => (one.type === "key" ? one.key : one.type))).toEqual([
    ..."a",
    ...["up", "wheel-down", "down", "enter", "backspace", "paste", "ctrl-c", "é", "🌊", "click"],
  ]);
  fc.assert(
    fc.property(fc.uniqueArray(fc.nat(sent.length), { maxLength: 6 }), (cuts) => {
      const inputs = [];
      let rest = "";
      const places = [0, ...cuts.sort((a, b) => a - b), sent.length];
      for (const [at, place] of places.slice(1).entries()) {
        // The two halves of one character come together, as they do from a decoder.
        const read = readKeys(rest + sent.slice(places[at], place));
        inputs.push(...read.inputs);
        rest = read.rest;
      }
      inputs.push(...readKeys(rest, { isAll: true }).inputs);
      const isWhole = !places.some((place) => /[\udc00-\udfff]/.test(sent[place] ?? ""));
      if (isWhole) expect(inputs).toEqual(whole);
    }),
  );
  expect(readKeys("\u001b").inputs).toEqual([]);
  expect(readKeys("\u001b", { isAll: true }).inputs).toEqual([{ type: "key", key: "escape" }]);
});
