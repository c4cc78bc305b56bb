// Compiles packages/session-tree/src/usual-lines.wat and writes usual-lines-code.ts beside it.
//
//     node scripts/compile-usual-lines.mjs            write it
//     node scripts/compile-usual-lines.mjs --check    exit 1 when the file is not what the source gives
import { readFileSync, writeFileSync } from "node:fs";
import wabt from "wabt";

const SOURCE = new URL("../packages/session-tree/src/usual-lines.wat", import.meta.url);
const TARGET = new URL("../packages/session-tree/src/usual-lines-code.ts", import.meta.url);
const LONGEST = 110;

const { parseWat } = await wabt();
const compiled = parseWat("usual-lines.wat", readFileSync(SOURCE, "utf8"), { simd: true });
compiled.validate();
const { buffer } = compiled.toBinary({});
const base64 = Buffer.from(buffer).toString("base64");
const lines = [];
for (let at = 0; at < base64.length; at += LONGEST) lines.push(`  "${base64.slice(at, at + LONGEST)}",`);
const text = `// Made of usual-lines.wat by \`node scripts/compile-usual-lines.mjs\`; a test holds the two together.

/** The compiled usual-lines.wat, as base64. */
export const USUAL_LINES_CODE = [
${lines.join("\n")}
].join("");
`;

if (!process.argv.includes("--check")) writeFileSync(TARGET, text);
else if (readFileSync(TARGET, "utf8") !== text) {
  console.error(
    "usual-lines-code.ts is not what usual-lines.wat gives: run `node scripts/compile-usual-lines.mjs`.",
  );
  process.exitCode = 1;
}
