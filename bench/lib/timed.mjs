// Milliseconds of work, by the clock that does not jump, and what a process holds.
import { readFileSync } from "node:fs";
import { median } from "./median.mjs";

/** @returns {Promise<{ ms: number, result: any }>} */
export async function timed(/** @type {() => any} */ work) {
  const start = performance.now();
  const result = await work();
  return { ms: performance.now() - start, result };
}

/**
 * The median time of many runs, for work too short to be timed alone.
 * @param {number} count
 * @param {(at: number) => any} work
 */
export async function medianTime(count, work) {
  const times = [];
  for (let at = 0; at < count; at++) {
    const start = performance.now();
    const result = work(at);
    // An await where there is no promise would cost as much as what is measured.
    if (result instanceof Promise) await result;
    times.push(performance.now() - start);
  }
  return median(times);
}

/**
 * Megabytes that a process held at most so far. In what `maxRSS` says on Linux, a process begins with what the one that
 * started it held; what it held itself stands in its status.
 */
export function peakMegabytes() {
  if (process.platform !== "linux") return process.resourceUsage().maxRSS / 1024;
  const [, kilobytes] = /^VmHWM:\s*(\d+) kB$/m.exec(readFileSync("/proc/self/status", "utf8"));
  return Number(kilobytes) / 1024;
}
