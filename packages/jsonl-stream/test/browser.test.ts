import { fileURLToPath } from "node:url";
import { runInNewContext } from "node:vm";
import { buildSync } from "esbuild";
import { expect, test } from "vitest";

test("the root entry is bundled for a browser, and works without any Node module", () => {
  const program = `
    import { bytesView, encodeLines, formatLine, forEachLineBackward, parseLine, scanLines } from "@espalier/jsonl-stream";
    const view = bytesView(encodeLines([formatLine({ id: 1 }), formatLine({ id: "é" })]));
    const options = { blockSize: 3 };
    globalThis.ahead = [...scanLines(view, options)].map(({ offset }) => parseLine(view.read(offset, 8)).ok);
    const back = globalThis.back = [];
    forEachLineBackward(view, (block, start, end, offset) => void back.push([offset, end - start]), options);
  `;
  const built = buildSync({
    stdin: { contents: program, resolveDir: fileURLToPath(new URL("..", import.meta.url)) },
    bundle: true,
    platform: "browser",
    format: "iife",
    write: false,
  });
  const world: { ahead?: unknown; back?: unknown; [name: string]: unknown } = { TextDecoder, TextEncoder };
  runInNewContext(built.outputFiles[0]!.text, world);
  expect(JSON.stringify(world.back)).toBe("[[9,11],[0,8]]");
  expect(JSON.stringify(world.ahead)).toBe("[true,false]");
});
