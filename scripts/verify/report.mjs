// The end of a run: what was skipped and why, how long it took, and the counts in a line of their own.

/** @returns {number} the exit code */
export function report(/** @type {import("./run-check.mjs").Result[]} */ results) {
  const skipped = results.flatMap((result) => result.skipped);
  for (const reason of new Set(skipped.map((test) => test.reason))) {
    console.log(`skipped: ${reason}`);
    for (const { name } of skipped.filter((test) => test.reason === reason)) console.log(`    ${name}`);
  }
  const failed = results.filter((result) => result.failed > 0);
  if (failed.length > 0) console.log(`failed: ${failed.map(({ name }) => name).join(", ")}`);
  const seconds = results.reduce((sum, result) => sum + result.seconds, 0);
  console.log(`${results.length} checks in ${seconds.toFixed(0)} s\n`);

  const count = (/** @type {"passed" | "failed"} */ key) =>
    results.reduce((sum, result) => sum + result[key], 0);
  const ending = skipped.length > 0 ? `, ${skipped.length} skipped` : "";
  console.log(`${count("passed")} passed, ${count("failed")} failed${ending}`);
  return failed.length > 0 ? 1 : 0;
}
