import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { describe, expect, test } from "vitest";
import { Output } from "../src/shell.ts";
import { DEMO, espalier, temporaryFolder } from "./espalier.ts";
import { hasTmux, Tmux } from "./tmux.ts";

/** Pieces of a text, after which making the next one fails where `fails`. */
function* pieces(count: number, fails: boolean): Generator<string> {
  for (let at = 0; at < count; at++) yield `${String(at).padStart(9)}é`.repeat(1_000);
  if (fails) throw new Error("The next piece cannot be made.");
}

test.each([
  ["little", 10],
  ["more than is kept in memory", 4_000],
])("a text of %s is printed only when all of it was made", async (_much, count) => {
  const failing = new PassThrough();
  const failed = new Output(failing as unknown as NodeJS.WriteStream);
  await expect(failed.writeWhole(pieces(count, true))).rejects.toThrow("cannot be made");
  failing.end();
  expect(await text(failing)).toBe("");

  const stream = new PassThrough();
  const printed = text(stream);
  const output = new Output(stream as unknown as NodeJS.WriteStream);
  await output.write("before ");
  await output.writeWhole(pieces(count, false));
  stream.end();
  expect(await printed).toBe(`before ${[...pieces(count, false)].join("")}`);
});

describe.skipIf(!hasTmux)("on a terminal of 80 columns (skipped where tmux is missing)", () => {
  const ESPALIER_HOME = temporaryFolder();
  const wordsOf = (text: string) => text.split(/\s+/).filter((word) => word !== "");

  /** Lines of a command on the terminal, without the typed one; a line that the terminal broke is one line. */
  async function shownBy(parameters: readonly string[]): Promise<string[]> {
    const screen = await Tmux.run(parameters, { columns: 80, rows: 24, env: { ESPALIER_HOME } });
    const end = new RegExp(`^${Tmux.LEFT} \\d$`, "m");
    await screen.until((shown) => end.test(shown), "the end of the command");
    const { history } = screen;
    screen.end();
    const lines = history.split("\n").map((line) => line.trimEnd());
    const typed = lines.findLastIndex((line) => line.endsWith(`echo ${Tmux.LEFT} $?`));
    return lines.slice(
      typed + 1,
      lines.findLastIndex((line) => end.test(line)),
    );
  }

  test.each([
    ["help"],
    ...["list", "search", "show", "export", "import", "fork", "undo", "stats", "config", "demo"].map(
      (name) => ["help", name],
    ),
    ["config"],
    ["stats", DEMO],
  ])("%s %s has no line that is cut or broken inside a word", async (...parameters) => {
    const lines = await shownBy(parameters);
    expect(lines.filter((line) => line.length > 80)).toEqual([]);
    const { stdout } = await espalier(parameters, { env: { ESPALIER_HOME } });
    // The names of models are shorter where a table has little room.
    expect(wordsOf(lines.join("\n"))).toEqual(wordsOf(stdout.replaceAll(/^\w+\/(?=claude|gpt)/gm, "")));
  });

  test("an error message is wrapped between words", async () => {
    const lines = await shownBy(["export", DEMO, "--out", "session.txt"]);
    expect(lines.filter((line) => line.length > 80 && !line.includes(DEMO))).toEqual([]);
    expect(lines.join(" ")).toContain(
      "The ending of session.txt is not that of a format: use .md, .html, .json or .jsonl, or add --format.",
    );
  });
});
