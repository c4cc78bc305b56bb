import { EventEmitter } from "node:events";
import type { ReadStream } from "node:tty";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { readInput, type TerminalInput } from "../src/terminal/screen/keys.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A terminal that sends bytes when it is told to, and what is read from it. */
function typing(options: Parameters<typeof readInput>[2] = {}) {
  const input = new EventEmitter();
  const events: TerminalInput[] = [];
  readInput(input as ReadStream, (event) => events.push(event), options);
  return { events, send: (text: string) => input.emit("data", Buffer.from(text)) };
}

test("pasted text is never a key, however slowly it arrives", () => {
  const { events, send } = typing();
  send("\u001b[200~quit: q, un");
  vi.advanceTimersByTime(2_000);
  send("do: u\n");
  vi.advanceTimersByTime(2_000);
  send("\u001b[201~");
  expect(events).toEqual([{ type: "paste", text: "quit: q, undo: u\n" }]);
});

test("a lone escape is the Escape key, and a paste without an end is accepted after a while", () => {
  const { events, send } = typing();
  send("\u001b");
  expect(events).toEqual([]);
  vi.advanceTimersByTime(100);
  expect(events).toEqual([{ type: "key", key: "escape" }]);
  send("\u001b[200~half");
  vi.advanceTimersByTime(60_000);
  expect(events[1]).toEqual({ type: "paste", text: "half" });
});

/** Names of the keys that bytes are read as. */
function keysOf(text: string, options: Parameters<typeof readInput>[2] = {}): string[] {
  const { events, send } = typing(options);
  send(text);
  vi.advanceTimersByTime(100);
  return events.map((event) => (event.type === "key" ? event.key : event.type));
}

test("Enter with Alt or Shift is a separate key, in the encodings of kitty, xterm and every terminal", () => {
  expect(keysOf("\r")).toEqual(["enter"]);
  expect(keysOf("\r\n")).toEqual(["enter"]);
  expect(keysOf("\u001b\r")).toEqual(["alt-enter"]);
  expect(keysOf("\u001b[13;2u\u001b[13;3u")).toEqual(["shift-enter", "alt-enter"]);
  expect(keysOf("\u001b[27;2;13~\u001b[27;3;13~")).toEqual(["shift-enter", "alt-enter"]);
});

test("keys in the encoding of a keyboard protocol have the same meaning as without it", () => {
  expect(keysOf("\u001b[27u")).toEqual(["escape"]);
  expect(keysOf("\u001b[99;5u\u001b[27;5;99~\u0003")).toEqual(["ctrl-c", "ctrl-c", "ctrl-c"]);
  // With CapsLock, which is 64.
  expect(keysOf("\u001b[99;69u")).toEqual(["ctrl-c"]);
  expect(keysOf("\u001b[97;2u\u001b[97:65;1u")).toEqual(["A", "a"]);
  expect(keysOf("\u001b[9;2u\u001b[127u")).toEqual(["backtab", "backspace"]);
  expect(keysOf("\u001b[57358;1u\u001b[1114112u\u001b[1u")).toEqual([]);
});

test("Escape and a letter are one key only in text fields", () => {
  expect(keysOf("\u001bb")).toEqual(["escape", "b"]);
  expect(keysOf("\u001bb\u001b\u007f", { hasAlt: true })).toEqual(["alt-b", "alt-backspace"]);
});
