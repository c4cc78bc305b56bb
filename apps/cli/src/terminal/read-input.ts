import type { ReadStream } from "node:tty";
import { PASTE_BEGINS, readKeys } from "./keys.ts";
import type { TerminalEvent } from "./terminal-event.ts";

/** Milliseconds after which an escape was the key, and not the beginning of another one. */
const ESCAPE_TIME = 40;

/** Milliseconds after which the rest of what is pasted does not come any more: until then none of it is a key. */
const PASTE_TIME = 5_000;

/** Tells of everything that a person does at a terminal, until `end`. */
export function readInput(input: ReadStream, dispatch: (event: TerminalEvent) => void): { end: () => void } {
  let waiting = "";
  let timer: NodeJS.Timeout | undefined;
  const take = (read: string, isAll: boolean) => {
    const { inputs, rest } = readKeys(waiting + read, isAll);
    waiting = rest;
    for (const one of inputs) dispatch(one);
    const patience = rest.startsWith(PASTE_BEGINS) ? PASTE_TIME : ESCAPE_TIME;
    if (rest !== "") timer = setTimeout(take, patience, "", true);
  };
  const decoder = new TextDecoder();
  const heard = (bytes: Uint8Array) => {
    clearTimeout(timer);
    take(decoder.decode(bytes, { stream: true }), false);
  };
  input.on("data", heard);
  return {
    end() {
      clearTimeout(timer);
      input.off("data", heard);
    },
  };
}
