import { Writable } from "node:stream";
import { expect, test, vi } from "vitest";
import { loadScreen } from "../src/terminal/screen/drawing.ts";

/** Milliseconds that a busy machine may take. */
const PATIENCE = { timeout: 30_000 };

/** What is written to a terminal of 40 × 3. */
function terminal() {
  let written = "";
  const stdout = new Writable({
    write(piece: Buffer, _, done) {
      written += piece.toString("utf8");
      done();
    },
  });
  const read = () => {
    const text = written;
    written = "";
    return text;
  };
  return {
    stdout: Object.assign(stdout, { columns: 40, rows: 3, isTTY: true }) as unknown as NodeJS.WriteStream,
    read,
    sees: (text: string) => vi.waitFor(() => expect(written).toContain(text), PATIENCE),
  };
}

test("a screen is written as it is painted, then the lines that changed, and nothing behind its end", async () => {
  const { drawScreen } = await loadScreen();
  const { stdout, read, sees } = terminal();
  // A character that fonts of programmers have, and nobody else: it means something to somebody.
  let lines = ["\u001b[36mone\u001b[0m 漢字 🌊", "\ue0a0 main \uf001", "three"];
  const told = new Set<() => void>();
  const end = drawScreen(
    {
      current: () => lines.join("\n"),
      subscribe: (changed) => {
        told.add(changed);
        return () => told.delete(changed);
      },
    },
    stdout,
  );
  await sees("three");
  const first = read();
  for (const text of lines) expect(first).toContain(text);
  expect(first.split("\n")).toHaveLength(3);
  for (let change = 0; change < 5; change++) {
    lines = [lines[0]!, `line two, ${change}`, lines[2]!];
    for (const tell of told) tell();
    await sees(`line two, ${change}`);
    const written = read();
    expect(written).not.toContain("one");
    expect(written).not.toContain("three");
  }
  end();
  lines = ["a", "b", "c"];
  for (const tell of told) tell();
  expect(read()).not.toContain("line two");
});
