import { createInterface } from "node:readline";
import type { ExtensionDialogs } from "@espalier/engine";
import { plainLine } from "./plain-text.ts";

/** Asks for one line; undefined where none comes: the signal fired, the input ended, or the person pressed Ctrl-C. */
export type AskLine = (question: string, signal: AbortSignal | undefined) => Promise<string | undefined>;

/** Dialogs of extensions in lines: what is asked is said, and the answer is a line. */
export function lineDialogs(say: (text: string) => void, ask: AskLine): ExtensionDialogs {
  return {
    async confirm(title, message, { signal } = {}) {
      if (message) say(message);
      const answer = await ask(`${plainLine(title)} [y/N]`, signal);
      return /^y(es)?$/i.test(answer?.trim() ?? "");
    },
    async select(title, choices, { signal } = {}) {
      choices.forEach((choice, at) => {
        say(`  ${at + 1}  ${choice}`);
      });
      const answer = (await ask(`${plainLine(title)} [1-${choices.length}]`, signal))?.trim() ?? "";
      return choices[Number(answer) - 1] ?? choices.find((choice) => choice === answer);
    },
    async input(title, placeholder, { signal } = {}) {
      const answer = await ask(
        `${plainLine(title)}${placeholder ? ` (${plainLine(placeholder)})` : ""}:`,
        signal,
      );
      return answer === "" ? undefined : answer;
    },
  };
}

/** Asks on the terminal that stdin and stderr are. */
export const askOnTerminal: AskLine = (question, signal) =>
  new Promise((resolve) => {
    const terminal = createInterface({ input: process.stdin, output: process.stderr });
    const end = (answer: string | undefined) => {
      signal?.removeEventListener("abort", close);
      resolve(answer);
      terminal.close();
    };
    const close = () => end(undefined);
    terminal.once("close", close);
    terminal.once("SIGINT", close);
    signal?.addEventListener("abort", close, { once: true });
    terminal.question(`${question} `, end);
  });
