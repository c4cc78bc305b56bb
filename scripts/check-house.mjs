// The rules of the house, one clear sentence per violation: node scripts/check-house.mjs [folder]
import { checkBrowser, checkCycles, checkFiles, checkManifests, checkRows } from "./house/rules.mjs";
import { readWorkspace } from "./house/workspace.mjs";
import { root } from "./tools.mjs";

const workspace = readWorkspace(process.argv[2] ?? root);
const rules = [checkRows, checkCycles, checkBrowser, checkFiles, checkManifests];
const violations = rules.flatMap((rule) => rule(workspace));
for (const violation of violations) console.log(violation);
process.exitCode = violations.length > 0 ? 1 : 0;
