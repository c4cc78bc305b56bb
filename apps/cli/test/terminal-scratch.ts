// A terminal without a terminal: states, events and frames.
import { readFileSync } from "node:fs";
import { bytesView, jsonText } from "@espalier/jsonl-stream";
import { Tree } from "@espalier/session-tree";
import { view } from "../src/terminal/open-terminal.ts";
import { frameText } from "../src/terminal/screen/frame.ts";
import { firstState, type TerminalEffect, type TerminalState } from "../src/terminal/state/state.ts";
import { type TerminalEvent, update } from "../src/terminal/state/update.ts";
import { type TreeModel, treeModel } from "../src/terminal/tree/tree-model.ts";
import { DEMO } from "./espalier.ts";

/** The demo session was written then. */
const THEN = Date.parse("2026-03-09T12:00:00Z");

const treeOf = (bytes: Uint8Array): Tree => new Tree(bytesView(bytes));

export const demoModel = (): TreeModel => treeModel(treeOf(readFileSync(DEMO)));

/** A tree of lines of JSON behind a header. */
export function modelOf(lines: readonly object[]): TreeModel {
  const header = {
    type: "session",
    version: 3,
    id: "s1",
    timestamp: "2026-01-01T00:00:00.000Z",
    cwd: "/project",
  };
  return treeModel(
    treeOf(new TextEncoder().encode([header, ...lines].map((line) => `${jsonText(line)}\n`).join(""))),
  );
}

/** A terminal to which events happen, and what it asked to be done. */
export class Scratch {
  state: TerminalState;
  readonly effects: TerminalEffect[] = [];

  constructor(columns = 80, rows = 24) {
    this.state = firstState({ size: { columns, rows }, now: THEN, isColoured: false });
  }

  happen(...events: readonly TerminalEvent[]): this {
    for (const event of events) {
      const { state, effects } = update(this.state, event);
      this.state = state;
      this.effects.push(...effects);
    }
    return this;
  }

  keys(...keys: readonly string[]): this {
    return this.happen(...keys.map((key) => ({ type: "key" as const, key })));
  }

  type(text: string): this {
    return this.keys(...text);
  }

  open(model: TreeModel, rest: Partial<Extract<TerminalEvent, { type: "opened" }>> = {}): this {
    return this.happen({
      type: "opened",
      ref: "/sessions/one.jsonl",
      cwd: "/home/somebody/project",
      readOnly: undefined,
      writer: { name: "extractive", isBilled: false },
      isFinding: true,
      model,
      entryId: undefined,
      editorText: undefined,
      ...rest,
    });
  }

  get screen(): string {
    return frameText(view(this.state));
  }

  /** The row of the tree on which the cursor is, as text. */
  get selected(): string {
    return this.screen.split("\n").find((text) => text.startsWith("▸")) ?? "";
  }
}
