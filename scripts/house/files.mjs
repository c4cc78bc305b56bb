// What a file may be called, how long it may be, and what an index may hold.

/** Lines of a source file: one noun a file, the median far below. Tests are lists of sentences and may be longer. */
const longest = 250;
const longestTest = 750;
const longReason = /^(\/\/|\/\*\*?) Over 250 lines because \S+/;
const vague = /^(utils?|types?|helpers?|common|misc)$/;
const kebabCase = /^[a-z0-9]+(-[a-z0-9]+)*(\.[a-z0-9]+(-[a-z0-9]+)*)*$/;

/** @returns {string[]} */
export function checkFiles(/** @type {import("./workspace.mjs").Workspace} */ workspace) {
  const inPackages = workspace.packages.flatMap((owner) => owner.files);
  return [...inPackages, ...workspace.scripts].flatMap((file) => [
    ...file.errors.map((error) => `${file.path} cannot be parsed: ${error}.`),
    ...checkLength(file),
    ...checkNames(file.path),
    ...checkIndex(file),
  ]);
}

function checkLength(/** @type {import("./source.mjs").SourceFile} */ { path, lineCount, firstLine }) {
  const limit = /\/test\//.test(path) ? longestTest : longest;
  if (lineCount <= limit || longReason.test(firstLine)) return [];
  return [
    `${path} has ${lineCount} lines: take a noun out of it, or open it with "// Over ${longest} lines because …".`,
  ];
}

/** @returns {string[]} */
function checkNames(/** @type {string} */ path) {
  const names = path.split("/").map((part) => part.replace(/\.(ts|tsx|mjs)$/, ""));
  return names.flatMap((name) => {
    const stem = name.replace(/\.test$/, "");
    if (vague.test(stem))
      return [`${path} is named "${name}", which says nothing: name it after the noun it holds.`];
    if (!kebabCase.test(name)) return [`${path} is named "${name}": files and folders are kebab-case.`];
    return [];
  });
}

function checkIndex(/** @type {import("./source.mjs").SourceFile} */ { path, listsNamesOnly }) {
  if (!/\/src\/(.*\/)?index\.tsx?$/.test(path) || listsNamesOnly) return [];
  return [`${path} is a table of contents: it holds nothing but \`export { … } from "…"\`.`];
}
