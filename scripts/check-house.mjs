// Checks the rules of the repository: node scripts/check-house.mjs [folder]
import { checkHouse } from "./house/rules.mjs";
import { root } from "./tools.mjs";

const violations = checkHouse(process.argv[2] ?? root);
for (const violation of violations) console.log(violation);
process.exitCode = violations.length > 0 ? 1 : 0;
