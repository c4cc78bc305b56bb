// What a file may be called, how long it may be, and what an index may hold.

/** Lines of a source file: a noun with everything that only it uses. Tests are lists of sentences and may be longer. */
const longest = 550;
const longestTest = 900;
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

function checkLength(/** @type {import("./source.mjs").SourceFile} */ { path, lineCount }) {
  const limit = /\/test\//.test(path) ? longestTest : longest;
  if (lineCount <= limit) return [];
  return [
    `${path} has ${lineCount} lines, ${limit} at most: move a noun with its helpers into a file of its own.`,
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
