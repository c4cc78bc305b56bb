import { jsonLine, jsonPieces } from "./json-pieces.ts";
import { styledText } from "./plain-text.ts";
import type { Shell } from "./shell.ts";

/** Prints an answer: the value with `--json`, else what people read. */
export async function print(shell: Shell, value: object, people: () => Iterable<string>): Promise<void> {
  if (shell.json) await printJson(shell, value);
  else await printLines(shell, people());
}

/** Prints one JSON value whole, or nothing where making it fails. */
export async function printJson({ output }: Shell, value: object): Promise<void> {
  await output.writeWhole(line(jsonPieces(value)));
}

function* line(pieces: Iterable<string>): Generator<string> {
  yield* pieces;
  yield "\n";
}

/** Prints one step of a stream: the value on a line of its own with `--json`, else a line that people read. */
export async function printStep({ json, output }: Shell, value: object, people: () => string): Promise<void> {
  if (json) await output.writeLine(jsonLine(value));
  else await printLine({ output }, people());
}

export async function printLines(shell: Pick<Shell, "output">, lines: Iterable<string>): Promise<void> {
  for (const line of lines) await printLine(shell, line);
}

/** Prints a line for people. All of them go out here: ids and names in them are of whoever wrote the session. */
export async function printLine({ output }: Pick<Shell, "output">, line: string): Promise<void> {
  await output.writeLine(styledText(line));
}
