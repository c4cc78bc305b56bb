// Packs what would be published and uses it as a stranger would: node scripts/check-packages.mjs
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkConsumer, installers } from "./packages/consumer.mjs";
import { buildAfresh, pack, publishableFolders } from "./packages/pack.mjs";
import { runtimes } from "./packages/runtimes.mjs";
import { checkShape } from "./packages/shape.mjs";

const work = mkdtempSync(join(tmpdir(), "espalier-packages-"));
process.on("exit", () => rmSync(work, { recursive: true, force: true }));

const folders = publishableFolders();
if (!buildAfresh(folders)) {
  console.log("The build fails, so there is nothing to pack.");
  process.exit(1);
}
const packed = folders.map((folder) => pack(folder, work));
for (const { name, size, files } of packed) {
  console.log(`${name.padEnd(28)} ${(size / 1024).toFixed(1).padStart(8)} kB packed, ${files.length} files`);
}
const nodes = runtimes();
const faults = [
  ...(await Promise.all(packed.map(checkShape))).flat(),
  ...installers.flatMap((installer) =>
    checkConsumer(join(work, `installed-by-${installer.name}`), packed, installer, nodes),
  ),
];
for (const fault of faults) console.log(fault);
process.exitCode = faults.length > 0 ? 1 : 0;
