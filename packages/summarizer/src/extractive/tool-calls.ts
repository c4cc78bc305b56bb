import { isRecord, type ToolCallBlock } from "@espalier/session-tree";
import { PATH_FIELDS, patchedFiles } from "../files.ts";

/** Purpose of a call: from its arguments, or from the tool's name when they do not show it. */
type CallPurpose = "read" | "edit" | "write" | "run" | "plan" | "other";

/** One item of a task list of the agent. */
export interface PlanItem {
  text: string;
  state: "open" | "doing" | "done";
}

export interface CallDescription {
  purpose: CallPurpose;
  /** Files in the arguments, as they are written there. */
  paths: string[];
  /** Command line of a call that runs one. */
  command: Command | undefined;
  plan: PlanItem[];
}

const COMMAND_KEYS = ["command", "cmd", "script"];

/** Verbs of file tools that have an argument `command` for the operation. */
const FILE_VERBS: Record<string, CallPurpose> = {
  view: "read",
  create: "write",
  str_replace: "edit",
  insert: "edit",
  undo_edit: "edit",
};
const LONGEST_PATH = 300;

export function describeCall(call: ToolCallBlock): CallDescription {
  const given: unknown = call.arguments;
  const values = isRecord(given) ? given : {};
  const name = typeof call.name === "string" ? call.name.toLowerCase() : "";
  const paths = PATH_FIELDS.flatMap((key) => pathOf(values[key]));
  const plan = planOf(values);
  if (plan.length > 0) return { purpose: "plan", paths: [], command: undefined, plan };

  const line = COMMAND_KEYS.map((key) => commandOf(values[key])).find((command) => command !== undefined);
  if (line !== undefined && paths.length > 0 && line in FILE_VERBS) {
    return { purpose: FILE_VERBS[line]!, paths, command: undefined, plan };
  }
  const patch = [line, values["patch"], values["input"], values["diff"]].find(isPatch);
  if (patch !== undefined) {
    const { written = [], edited = [] } = patchedFiles(patch);
    const patched = [...new Set([...written, ...edited])];
    return { purpose: "edit", paths: patched.flatMap(pathOf), command: undefined, plan };
  }
  if (line !== undefined) {
    const command = readCommand(line);
    const purpose = command.reads ? "read" : "run";
    return { purpose, paths: command.reads ? pathsIn(command.key) : writtenPaths(line), command, plan };
  }
  return { purpose: purposeByName(name, values), paths, command: undefined, plan };
}

function purposeByName(name: string, values: Record<string, unknown>): CallPurpose {
  if (/edit|replace|patch|update|insert|modify/.test(name) || "old_string" in values || "oldText" in values)
    return "edit";
  if (/write|create|save/.test(name)) return "write";
  if (/read|view|open|cat|grep|glob|find|search|list|^ls$|fetch/.test(name)) return "read";
  return "other";
}

function pathOf(value: unknown): string[] {
  return typeof value === "string" && value !== "" && value.length <= LONGEST_PATH && !/[\n\r]/.test(value)
    ? [value]
    : [];
}

/** Returns a command line; `["bash", "-lc", "make"]` is `make`. */
function commandOf(value: unknown): string | undefined {
  if (typeof value === "string") return value.trim() === "" ? undefined : value;
  if (!Array.isArray(value) || !value.every((part) => typeof part === "string")) return undefined;
  const isShell =
    value.length === 3 && /(?:^|\/)(?:ba|z|da)?sh$/.test(value[0]!) && /^-\w*c$/.test(value[1]!);
  return value.length === 0 ? undefined : isShell ? value[2] : value.join(" ");
}

function isPatch(value: unknown): value is string {
  return typeof value === "string" && /^\*\*\* (?:Update|Add|Delete) File: /m.test(value);
}

/** Returns files that a shell command clearly writes: `> file`, `tee file`, `sed -i … file`. */
function writtenPaths(command: string): string[] {
  const head = command.slice(0, 2_000);
  const targets = [
    ...head.matchAll(/(?:[^0-9&>@=<^~!-]>{1,2}|\btee(?: -a)?)\s*(?!=?v?\d+(?:\.\d+)+)([\w./~@-]+\.\w+)/g),
  ].map((match) => match[1]!);
  const inPlace = /\bsed\s+-i\b.*\s([\w./~@-]+\.\w+)\s*$/m.exec(head)?.[1];
  return [...new Set(inPlace === undefined ? targets : [...targets, inPlace])].filter(
    (path) => !path.startsWith("/dev/"),
  );
}

/** Returns the files and folders that a command names. */
export function pathsIn(key: string): string[] {
  const words = key
    .slice(0, 2_000)
    .split(/[\s'"=`(),:]+/)
    .filter(
      (word) =>
        word.length <= LONGEST_PATH &&
        /^(?!.*\.\.[\w.]|\.\w+\.\w[\w.]*$)(?:[\w./~@-]+\.[A-Za-z]\w*|(?:~|\.{1,2})?(?:\/[\w.@-]+){2,})$/.test(
          word,
        ),
    );
  return [...new Set(words)];
}

/** Returns a task list: an array of objects with a state and a text, in the form of task and plan tools. */
function planOf(values: Record<string, unknown>): PlanItem[] {
  for (const value of Object.values(values)) {
    if (!Array.isArray(value) || value.length === 0) continue;
    const items = value.slice(0, 50).flatMap((item) => (isRecord(item) ? planItem(item) : []));
    if (items.length === Math.min(value.length, 50)) return items;
  }
  return [];
}

function planItem(item: Record<string, unknown>): PlanItem[] {
  const { status } = item;
  const text = [item["content"], item["step"], item["title"], item["text"], item["task"]].find(
    (value) => typeof value === "string",
  );
  if (typeof status !== "string" || typeof text !== "string") return [];
  const state = /^(?:done|completed?|finished)$/i.test(status)
    ? "done"
    : /progress|doing|active/i.test(status)
      ? "doing"
      : "open";
  return [{ text, state }];
}

/** A command line, reduced to the part that distinguishes commands. */
export interface Command {
  /** Command in a form that can be typed again: one line, without filters of its output. */
  line: string;
  /** Key that is equal for runs of the same command: without folder, filters and redirections. */
  key: string;
  /** True when its output is a text (`grep`, `cat`, `git log`) and not a report of success. */
  reads: boolean;
  /** True when it includes the text of a file or an edit in place: it is not typed again. */
  once: boolean;
}

const READERS =
  /^(?:cat|head|tail|less|grep|egrep|rg|ag|find|fd|ls|ll|tree|wc|sed -n|awk|jq|stat|file|which|type|pwd|echo|printf|date|env|printenv|sleep|diff|ps|du|df|git (?:log|show|diff|status|blame|branch|grep|ls-files|rev-parse)|npm (?:ls|view|list|info)|kubectl (?:get|describe|logs)|docker (?:ps|images|logs|inspect))\b/;

const FILTERS =
  /(?<!\|)\|(?!\|)\s*(?:head|tail|grep|egrep|rg|wc|sort|uniq|sed|awk|cut|tee|less|cat|tr|jq|xargs echo)\b.*$/;

/** Redirection of output to a file, but not to `/dev/null` or another stream; `x@>2.0.0` is a version. */
const WRITES = /(?:^|[^0-9&>@=<^~!-])>{1,2}\s*(?!\/dev\/|v?\d+(?:\.\d+)+)[\w.~$/"'-]/;
const LONGEST_COMMAND = 2_000;

export function readCommand(text: string): Command {
  const whole = text.slice(0, LONGEST_COMMAND).trim();
  const heredoc = whole.search(/<<-?\s*['"]?\w+/);
  const firstLine = (heredoc === -1 ? whole : whole.slice(0, heredoc))
    .split("\n")
    .find((row) => row.trim() !== "" && !row.trim().startsWith("#"));
  const row = (firstLine ?? "").trim();
  const line = withoutFilters(row)
    .replace(/\s+2>&1|\s+2>\/dev\/null/g, "")
    .trim();
  const key = line
    .replace(/^(?:cd\s+\S+\s*(?:&&|;)\s*)+/, "")
    .replace(/^(?:\w+=\S+\s+|sudo\s+|time\s+|timeout\s+\S+\s+)+/, "")
    .replace(/\s*(?:\|\||&&|;)\s*(?:true|echo\b.*)$/, "")
    .trim();
  return {
    line,
    key,
    reads: READERS.test(key) && !WRITES.test(row),
    once: heredoc !== -1 || WRITES.test(row) || /\bsed\s+-i\b/.test(row),
  };
}

/** Returns the command before the filters of its output; all of it when the bar is inside quotation marks. */
function withoutFilters(row: string): string {
  const cut = row.replace(FILTERS, "");
  const isOpen = ["'", '"'].some((mark) => (cut.split(mark).length - 1) % 2 === 1);
  return isOpen ? row : cut;
}

/** Result of a call or command. */
export interface Outcome {
  failed: boolean;
  /** Line with the reason of a failure, if there is one. */
  errorLine: string | undefined;
}

/** Numbers of characters that are searched for errors at the beginning and at the end of an output. */
const SEARCHED_HEAD = 8_000;
const SEARCHED_TAIL = 16_000;
const LONGEST_LINE = 400;
const EXIT_CODE = /(?:exited with (?:exit )?(?:code|status)|exit (?:code|status)):?\s+(-?\d+)/i;

/** Patterns of lines that report a failure, the clearest first. */
const FAILURES = [
  /\berror(?: (?:TS|E|CS|C)\d+|\[E\d+\])\b|^\s*(?:\w+\.)*\w*(?:Error|Exception)\b\s*[:(]/,
  /^\s*(?:FAILED|FAIL|✗|✘|×|not ok)\b|^\s*(?:[✗✘×])\s|\bAssertionError\b|\bpanic(?:ked)?\b/,
  /^\s*(?:fatal|error|E\s{2,}|ERR!|npm (?:error|ERR!))[: ]|: (?:fatal )?error: |\berror: /i,
  /command not found|No such file or directory|Permission denied|cannot find|could not|segmentation fault|timed? ?out/i,
];

/**
 * Returns the outcome of a call. A command that runs something has also failed when its output has an error line and
 * the exit code is 0.
 */
export function outcomeOf(output: string, reported: { isError: boolean; runs: boolean }): Outcome {
  const searched =
    output.length <= SEARCHED_HEAD + SEARCHED_TAIL
      ? output
      : `${output.slice(0, SEARCHED_HEAD)}\n${output.slice(-SEARCHED_TAIL)}`;
  const code = EXIT_CODE.exec(searched.slice(-500)) ?? EXIT_CODE.exec(searched.slice(0, 500));
  const saysFailed = code !== null && code[1] !== "0";
  const found = reported.isError || saysFailed || reported.runs ? findErrorLine(searched) : undefined;
  // A phrase like "could not" alone is not a failure; the clearer patterns are.
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

function lastLine(output: string): string | undefined {
  const lines = output
    .slice(-2_000)
    .split("\n")
    .map((line) => line.trim());
  return lines.findLast((line) => line !== "" && !EXIT_CODE.test(line))?.slice(0, LONGEST_LINE);
}
