// A bundle contains the work of others; their licences ask to travel with it.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** The licence of every package from npm among the bundled files, by name; throws where a package carries none. */
export function licenceTexts(/** @type {string} */ root, /** @type {string[]} */ inputs) {
  const folders = new Set(
    inputs.flatMap((path) => path.match(/^.*node_modules\/(@[^/]+\/)?[^/]+(?=\/)/)?.[0] ?? []),
  );
  const texts = [...folders].map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8"));
    const files = readdirSync(join(root, folder)).filter((file) => /^(licen[cs]e|notice)/i.test(file));
    if (files.length === 0 && !license) throw new Error(`${name}@${version} in the bundle names no licence.`);
    const texts = files.map((file) => readFileSync(join(root, folder, file), "utf8").trim());
    return `${name} ${version} (${license})\n\n${texts.join("\n\n")}\n`;
  });
  return `This program contains:\n\n${texts.sort().join("\n---\n\n")}`;
}
