// Compiles packages/session-tree/src/tree/compiled-scan.wat and writes it into compiled-scan.ts beside it.
//
//     node scripts/compile-scan.mjs            write it
//     node scripts/compile-scan.mjs --check    exit 1 when the file is not what the source gives
import { readFileSync, writeFileSync } from "node:fs";
import wabt from "wabt";

const SOURCE = new URL("../packages/session-tree/src/tree/compiled-scan.wat", import.meta.url);
const TARGET = new URL("../packages/session-tree/src/tree/compiled-scan.ts", import.meta.url);
const LONGEST = 110;

const { parseWat } = await wabt();
const compiled = parseWat("compiled-scan.wat", readFileSync(SOURCE, "utf8"), { simd: true });
compiled.validate();
const { buffer } = compiled.toBinary({});
const base64 = Buffer.from(buffer).toString("base64");
const lines = [];
for (let at = 0; at < base64.length; at += LONGEST) lines.push(`  "${base64.slice(at, at + LONGEST)}",`);
const source = readFileSync(TARGET, "utf8");
const code = `const COMPILED_SCAN_CODE = [\n${lines.join("\n")}\n].join("");\n`;
const text = source.replace(/const COMPILED_SCAN_CODE = \[[\s\S]*$/, () => code);

if (!process.argv.includes("--check")) writeFileSync(TARGET, text);
else if (source !== text) {
  console.error("compiled-scan.ts is not what compiled-scan.wat gives: run `node scripts/compile-scan.mjs`.");
  process.exitCode = 1;
}
