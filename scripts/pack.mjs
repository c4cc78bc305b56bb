// Writes every package as a tarball, to be installed where they are wanted: node scripts/pack.mjs FOLDER
import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import { buildAfresh, pack, publishableFolders } from "./packages/pack.mjs";

const [given] = process.argv.slice(2);
if (given === undefined) {
  console.error("Usage: npm run pack -- FOLDER, where the tarballs shall be.");
  process.exit(2);
}
const folder = resolve(given);
mkdirSync(folder, { recursive: true });
const folders = publishableFolders();
if (!buildAfresh(folders)) {
  console.error("The build fails, so there is nothing to pack.");
  process.exit(1);
}
for (const each of folders) console.log(pack(each, folder).tarball);
console.log(`\nIn the project that wants them: npm install ${folder}/*.tgz`);
