// Counts vitest's tests into the file that verify reads. A file that does not load, a suite whose hooks fail and an error
// outside of any test are failures too, although vitest counts no test for them.
import { writeFileSync } from "node:fs";
import { relative } from "node:path";
import { root } from "../tools.mjs";

export default class CountReporter {
  onTestRunEnd(
    /** @type {readonly import("vitest/node").TestModule[]} */ modules,
    /** @type {readonly unknown[]} */ unhandledErrors,
  ) {
    const file = process.env["VERIFY_COUNTS"];
    if (!file) return;
    /** @type {import("./checks.mjs").Counts} */
    const counts = { passed: 0, failed: unhandledErrors.length, skipped: [] };
    for (const module of modules) {
      const suites = [...module.children.allSuites()];
      counts.failed += [module, ...suites].filter((suite) => suite.errors().length > 0).length;
      for (const test of module.children.allTests()) {
        const result = test.result();
        if (result.state === "passed") counts.passed += 1;
        else if (result.state === "skipped") {
          const name = `${relative(root, module.moduleId)} > ${test.fullName}`;
          counts.skipped.push({ name, reason: result.note ?? reasonIn(test.fullName) });
        }
        // A test without a result has not passed.
        else counts.failed += 1;
      }
    }
    writeFileSync(file, JSON.stringify(counts));
  }
}

/**
 * Returns the reason in a suite's title, such as "a real session (skipped: not available)". Skipped suites have no
 * note.
 */
function reasonIn(/** @type {string} */ title) {
  return title.match(/\(skipped:? ([^)]+)\)/)?.[1] ?? "no reason given";
}
