// Compiles packages/session-tree/src/tree/compiled-scan.wat and writes compiled-scan-code.ts beside it.
//
//     node scripts/compile-usual-lines.mjs            write it
//     node scripts/compile-usual-lines.mjs --check    exit 1 when the file is not what the source gives
import { readFileSync, writeFileSync } from "node:fs";
import wabt from "wabt";

const SOURCE = new URL("../packages/session-tree/src/tree/compiled-scan.wat", import.meta.url);
const TARGET = new URL("../packages/session-tree/src/tree/compiled-scan-code.ts", import.meta.url);
const LONGEST = 110;

const { parseWat } = await wabt();
const compiled = parseWat("compiled-scan.wat", readFileSync(SOURCE, "utf8"), { simd: true });
compiled.validate();
const { buffer } = compiled.toBinary({});
const base64 = Buffer.from(buffer).toString("base64");
const lines = [];
for (let at = 0; at < base64.length; at += LONGEST) lines.push(`  "${base64.slice(at, at + LONGEST)}",`);
const text = `// Made of compiled-scan.wat by \`node scripts/compile-usual-lines.mjs\`; a test holds the two together.

/** The compiled compiled-scan.wat, as base64. */
export const USUAL_LINES_CODE = [
${lines.join("\n")}
].join("");
`;

if (!process.argv.includes("--check")) writeFileSync(TARGET, text);
else if (readFileSync(TARGET, "utf8") !== text) {
  console.error(
    "compiled-scan-code.ts is not what compiled-scan.wat gives: run `node scripts/compile-usual-lines.mjs`.",
  );
  process.exitCode = 1;
}
