// Compares the manifest of a tarball with its contents.
import { readFileSync } from "node:fs";
import { checkPackage, createPackageFromTarballData } from "@arethetypeswrong/core";
import { publint } from "publint";
import { formatMessage } from "publint/utils";

/** Module resolutions that must work: ES modules in Node 20, and bundlers. */
const resolutions = new Set(["node16-esm", "bundler"]);

/** @returns {Promise<string[]>} one sentence per fault */
export async function checkShape(/** @type {import("./pack.mjs").Packed} */ { name, tarball, files }) {
  const bytes = readFileSync(tarball);
  const data = new Uint8Array(bytes).buffer;
  const { messages, pkg } = await publint({ pack: { tarball: data }, strict: true });
  const published = messages.map((message) => `publint: ${formatMessage(message, pkg)}`);
  return [...published, ...(await checkTypes(bytes)), ...checkFiles(pkg, files)].map(
    (fault) => `${name}: ${fault}`,
  );
}

async function checkTypes(/** @type {Uint8Array} */ bytes) {
  const analysis = await checkPackage(createPackageFromTarballData(bytes));
  if (!analysis.types) return [];
  return analysis.problems
    .filter((problem) => !("resolutionKind" in problem) || resolutions.has(problem.resolutionKind))
    .map((problem) => {
      const entry = "entrypoint" in problem ? ` at "${problem.entrypoint}"` : "";
      const seenBy = "resolutionKind" in problem ? ` (${problem.resolutionKind})` : "";
      return `types: ${problem.kind}${entry}${seenBy}.`;
    });
}

function checkFiles(/** @type {Record<string, any>} */ manifest, /** @type {string[]} */ files) {
  const { exports: doors, bin, dependencies = {} } = manifest;
  const promised = [...targets(doors), ...targets(bin)].map((path) => path.replace(/^\.\//, ""));
  return [
    ...promised
      .filter((path) => !files.includes(path))
      .map((path) => `names ${path}, which is not in the tarball.`),
    ...files.filter((path) => /\.test\./.test(path)).map((path) => `${path} is a test: leave it out.`),
    ...(files.some((path) => /^licen[cs]e/i.test(path)) ? [] : ["has no licence."]),
    ...Object.keys(dependencies).map((name) => `depends on ${name}: bundle it, or make it an optional peer.`),
  ];
}

/**
 * Every path in an `exports` or `bin` value, through all its conditions.
 * @returns {string[]}
 */
function targets(/** @type {any} */ value) {
  if (typeof value === "string") return [value];
  return Object.values(value ?? {}).flatMap(targets);
}
