// Checks the rules of the repository: node scripts/check-house.mjs [folder]
// With `--list single` it prints each source file that one other file imports, and that file.
import { parseArgs } from "node:util";
import { checkHouse, listSingles } from "./house/rules.mjs";
import { root } from "./tools.mjs";

const { values, positionals } = parseArgs({ allowPositionals: true, options: { list: { type: "string" } } });
const [folder = root] = positionals;
if (values.list === "single") console.log(listSingles(folder).join("\n"));
else {
  const violations = checkHouse(folder);
  for (const violation of violations) console.log(violation);
  process.exitCode = violations.length > 0 ? 1 : 0;
}
