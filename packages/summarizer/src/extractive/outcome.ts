/** How a call or command ended. */
export interface Outcome {
  failed: boolean;
  /** The line that says why, where there is one. */
  errorLine: string | undefined;
}

/** Errors stand at the beginning or the end of an output; what is between is not searched. */
const SEARCHED_HEAD = 8_000;
const SEARCHED_TAIL = 16_000;
const LONGEST_LINE = 400;

const EXIT_CODE = /(?:exited with (?:exit )?(?:code|status)|exit (?:code|status)):?\s+(-?\d+)/i;

/** Lines that report a failure, the plainest first. */
const FAILURES = [
  /\berror(?: (?:TS|E|CS|C)\d+|\[E\d+\])\b|^\s*(?:\w+\.)*\w*(?:Error|Exception)\b\s*[:(]/,
  /^\s*(?:FAILED|FAIL|✗|✘|×|not ok)\b|^\s*(?:[✗✘×])\s|\bAssertionError\b|\bpanic(?:ked)?\b/,
  /^\s*(?:fatal|error|E\s{2,}|ERR!|npm (?:error|ERR!))[: ]|: (?:fatal )?error: |\berror: /i,
  /command not found|No such file or directory|Permission denied|cannot find|could not|segmentation fault|timed? ?out/i,
];

/** Outputs of commands that run something fail also where an error line stands in them although the exit code is 0. */
export function outcomeOf(output: string, reported: { isError: boolean; runs: boolean }): Outcome {
  const searched =
    output.length <= SEARCHED_HEAD + SEARCHED_TAIL
      ? output
      : `${output.slice(0, SEARCHED_HEAD)}\n${output.slice(-SEARCHED_TAIL)}`;
  const code = EXIT_CODE.exec(searched.slice(-500)) ?? EXIT_CODE.exec(searched.slice(0, 500));
  const saysFailed = code !== null && code[1] !== "0";
  const found = reported.isError || saysFailed || reported.runs ? findErrorLine(searched) : undefined;
  // A plain phrase as "could not" is no failure by itself; the plainer patterns are.
  const failed = reported.isError || saysFailed || (reported.runs && found !== undefined && found.rank < 2);
  if (!failed) return { failed, errorLine: undefined };
  return { failed, errorLine: found?.line ?? lastLine(searched) };
}

function findErrorLine(output: string): { line: string; rank: number } | undefined {
  let best: { line: string; rank: number } | undefined;
  for (const rawLine of output.split("\n")) {
    if (rawLine.length > LONGEST_LINE * 4) continue;
    const line = rawLine.trim().slice(0, LONGEST_LINE);
    const rank = FAILURES.findIndex((failure) => failure.test(line));
    if (rank !== -1 && (best === undefined || rank < best.rank)) best = { line, rank };
    if (best?.rank === 0) break;
  }
  return best;
}

/** The last line that says anything but the exit code. */
function lastLine(output: string): string | undefined {
  const lines = output
    .slice(-2_000)
    .split("\n")
    .map((line) => line.trim());
  return lines.findLast((line) => line !== "" && !EXIT_CODE.test(line))?.slice(0, LONGEST_LINE);
}
