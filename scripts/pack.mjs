// Writes the package as a tarball: node scripts/pack.mjs FOLDER
import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import { packEspalier } from "./packages/pack.mjs";

const [given] = process.argv.slice(2);
if (given === undefined) {
  console.error("Usage: npm run pack -- FOLDER, for example: npm run pack -- ../my-agent/espalier");
  process.exit(2);
}
const folder = resolve(given);
mkdirSync(folder, { recursive: true });
try {
  const { tarball } = await packEspalier(folder);
  console.log(`${tarball}\n\nInstall it in your project: npm install ${tarball}`);
} catch (error) {
  console.error(`The package could not be made: ${error instanceof Error ? error.message : error}.`);
  process.exitCode = 1;
}
