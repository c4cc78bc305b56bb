// Packs the published files and uses them in an empty project: node scripts/check-packages.mjs
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkConsumer, installers, runtimes } from "./packages/consumer.mjs";
import { packEspalier } from "./packages/pack.mjs";
import { checkShape } from "./packages/shape.mjs";

const work = mkdtempSync(join(tmpdir(), "espalier-packages-"));
process.on("exit", () => rmSync(work, { recursive: true, force: true }));

const packed = await packEspalier(work);
const { name, size, files } = packed;
console.log(`${name} ${(size / 1024).toFixed(1)} kB packed, ${files.length} files`);
const nodes = runtimes();
const faults = [
  ...(await checkShape(packed)),
  ...installers.flatMap((installer) =>
    checkConsumer(join(work, `installed-by-${installer.name}`), packed, installer, nodes),
  ),
];
for (const fault of faults) console.log(fault);
process.exitCode = faults.length > 0 ? 1 : 0;
