// The command as it is published: apps/cli/dist, with the licences of what the bundle contains.
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { bundleCommand } from "./command/bundle.mjs";
import { licenceTexts } from "./command/licences.mjs";
import { root } from "./tools.mjs";

const folder = join(root, "apps/cli/dist");
rmSync(folder, { recursive: true, force: true });
try {
  const inputs = await bundleCommand(root, folder, { sourcemap: false });
  writeFileSync(join(folder, "LICENCES.txt"), licenceTexts(root, inputs));
} catch (error) {
  console.error(`The command line could not be bundled: ${error instanceof Error ? error.message : error}`);
  process.exitCode = 1;
}
