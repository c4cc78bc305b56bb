import { EventEmitter } from "node:events";
import type { ReadStream } from "node:tty";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { readInput } from "../src/terminal/open-terminal.ts";
import type { TerminalEvent } from "../src/terminal/state/state.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A terminal that sends bytes when it is told to, and what is read from it. */
function typing() {
  const input = new EventEmitter();
  const events: TerminalEvent[] = [];
  readInput(input as ReadStream, (event) => events.push(event));
  return { events, send: (text: string) => input.emit("data", Buffer.from(text)) };
}

test("what is pasted is no key, however slowly it comes", () => {
  const { events, send } = typing();
  send("\u001b[200~quit: q, un");
  vi.advanceTimersByTime(2_000);
  send("do: u\n");
  vi.advanceTimersByTime(2_000);
  send("\u001b[201~");
  expect(events).toEqual([{ type: "paste", text: "quit: q, undo: u\n" }]);
});

test("an escape that nothing follows soon is the key, and what is pasted without an end is taken in the end", () => {
  const { events, send } = typing();
  send("\u001b");
  expect(events).toEqual([]);
  vi.advanceTimersByTime(100);
  expect(events).toEqual([{ type: "key", key: "escape" }]);
  send("\u001b[200~half");
  vi.advanceTimersByTime(60_000);
  expect(events[1]).toEqual({ type: "paste", text: "half" });
});
