import { isRecord, type ToolCallBlock } from "@espalier/session-tree";
import { PATH_FIELDS, patchedFiles } from "../files.ts";
import { type Command, LONGEST_PATH, pathsIn, readCommand, writtenPaths } from "./commands.ts";
import { oneLine, quote } from "./text.ts";

/** Purpose of a call: from its arguments, or from the tool's name when they do not show it. */
type CallPurpose = "read" | "edit" | "write" | "run" | "plan" | "other";

/** One item of a task list of the agent. */
export interface PlanItem {
  text: string;
  state: "open" | "doing" | "done" | "dropped";
}

/** A tool call as far as a summary needs it. */
export interface CallDescription {
  purpose: CallPurpose;
  /** The call in a few words: its command line, or the tool's name with its first arguments. */
  label: string;
  /** Files in the arguments, as they are written there. */
  paths: string[];
  /** Command line of a call that runs one. */
  command: Command | undefined;
  /** Change of a file in a few words, if the arguments have its old and its new text. */
  change?: string | undefined;
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

export function describeCall(call: ToolCallBlock): CallDescription {
  const given: unknown = call.arguments;
  const values = isRecord(given) ? given : {};
  const tool = typeof call.name === "string" ? call.name : "";
  const name = tool.toLowerCase();
  const paths = PATH_FIELDS.flatMap((key) => pathOf(values[key]));
  const purpose = purposeByName(name);
  const changes = purpose === "edit" || purpose === "write";
  const label = `${tool} ${changes && paths.length > 0 ? paths.join(" ") : shortArguments(values)}`.trim();
  const plan = planOf(values);
  if (plan.length > 0) return { purpose: "plan", label, paths: [], command: undefined, plan };

  const line = COMMAND_KEYS.map((key) => commandOf(values[key])).find((command) => command !== undefined);
  if (line !== undefined && paths.length > 0 && line in FILE_VERBS) {
    return { purpose: FILE_VERBS[line]!, label, paths, command: undefined, plan };
  }
  const patch = [line, values["patch"], values["input"], values["diff"]].find(isPatch);
  if (patch !== undefined) {
    const { written = [], edited = [] } = patchedFiles(patch);
    const patched = [...new Set([...written, ...edited])].flatMap(pathOf);
    const files = `${tool} ${patched.join(" ")}`.trim();
    return { purpose: "edit", label: files, paths: patched, command: undefined, plan };
  }
  if (line !== undefined) {
    const command = readCommand(line);
    return command.reads
      ? { purpose: "read", label: command.line, paths: pathsIn(command.key), command, plan }
      : { purpose: "run", label: command.line, paths: writtenPaths(line), command, plan };
  }
  return { purpose, label, paths, command: undefined, change: changeOf(values), plan };
}

/** Arguments with the text that a change replaces, and with the text that replaces it. */
const OLD_TEXT = /^old_?(?:str|string|text)$/i;
const NEW_TEXT = /^new_?(?:str|string|text)$/i;

/** Returns the numbers of added and removed lines, and the first one of them. */
function changeOf(values: Record<string, unknown>): string | undefined {
  const linesAt = (key: RegExp) => {
    const value = Object.entries(values).find(([name]) => key.test(name))?.[1];
    return typeof value === "string" ? value.split("\n").map(oneLine).filter(Boolean) : undefined;
  };
  const { edits } = values;
  if (Array.isArray(edits) && isRecord(edits[0])) return changeOf(edits[0]);
  const [before, after] = [linesAt(OLD_TEXT), linesAt(NEW_TEXT)];
  if (before === undefined || after === undefined) return undefined;
  const [had, has] = [new Set(before), new Set(after)];
  const added = after.filter((line) => !had.has(line));
  const removed = before.filter((line) => !has.has(line));
  const first = added[0] ?? removed[0] ?? "";
  const counts = [
    ...(added.length > 0 ? [`+${added.length}`] : []),
    ...(removed.length > 0 ? [`−${removed.length}`] : []),
  ];
  return counts.length === 0 ? undefined : `${counts.join(" ")} lines: ${quote(first, LONGEST_CHANGE)}`;
}

const SHOWN_ARGUMENTS = 3;
const LONGEST_ARGUMENT = 120;
const LONGEST_CHANGE = 80;

/** Returns the first short arguments of a call; texts of several lines are left out. */
function shortArguments(values: Record<string, unknown>): string {
  return Object.values(values)
    .filter((value) => typeof value === "string" || typeof value === "number")
    .map(String)
    .filter((value) => value !== "" && value.length <= LONGEST_ARGUMENT && !value.includes("\n"))
    .slice(0, SHOWN_ARGUMENTS)
    .join(" ");
}

function purposeByName(name: string): CallPurpose {
  if (/edit|replace|patch|update|insert|modify/.test(name)) return "edit";
  if (/write|create|save/.test(name)) return "write";
  if (/read|view|open|cat|grep|glob|find|search|list|^ls$|fetch/.test(name)) return "read";
  return "other";
}

/** Returns whether the label of a call is a command that may be typed again, and not a tool's name with arguments. */
export function isRepeatableRun(label: string): boolean {
  const name = label.split(" ", 1)[0]!.toLowerCase();
  if (!/^[a-z./]/.test(label) || name.includes("__") || purposeByName(name) !== "other") return false;
  const { reads, once } = readCommand(label);
  return !reads && !once;
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

/** Returns whether a file is temporary. A change of such a file is not a result of the work. */
export const isTemporary = (path: string): boolean => /^(?:\/private)?\/(?:var\/)?tmp\//.test(path);

/** Returns the strings in a call's arguments, one a line, up to a depth of eight levels. */
export function argumentText(value: unknown, depth = 8): string {
  if (typeof value === "string") return value;
  if (typeof value !== "object" || value === null || depth === 0) return "";
  return Object.values(value)
    .map((part) => argumentText(part, depth - 1))
    .join("\n");
}

/** Files that many tasks end with: documents, manifest and workflows of a project, alone on a line of a listing. */
const DOCUMENTS =
  /^(?:[-dl][rwx-]{9}.* |[ \t│├└─]*)(?:\.\/)?((?:README|CHANGELOG|CHANGES|CONTRIBUTING|ARCHITECTURE|AGENTS|CLAUDE|GEMINI)\.(?:md|rst|txt)|package\.json|pyproject\.toml|Cargo\.toml|go\.mod|Makefile|Dockerfile|\.gitlab-ci\.yml|\.github\/workflows\/[\w.-]+\.ya?ml)$/gm;

/** Returns the documents of the project that a listing names. */
export const documentsIn = (output: string): string[] =>
  Array.from(output.matchAll(DOCUMENTS), ([, path]) => path!);

/** Returns a task list: an array of objects with a state and a text, in the form of task and plan tools. */
function planOf(values: Record<string, unknown>): PlanItem[] {
  for (const value of Object.values(values)) {
    if (!Array.isArray(value) || value.length === 0) continue;
    const items = value.slice(0, 50).flatMap((item) => (isRecord(item) ? planItem(item) : []));
    if (items.length === Math.min(value.length, 50)) return items;
  }
  return [];
}

/** Keys of a task's text in the task lists of agents; `description` is Gemini's. */
const TASK_TEXTS = ["content", "step", "title", "text", "task", "description"];

const STATES: [RegExp, PlanItem["state"]][] = [
  [/^(?:done|completed?|finished)$/i, "done"],
  [/^(?:cancell?ed|dropped|deleted|skipped)$/i, "dropped"],
  [/progress|doing|active/i, "doing"],
];

function planItem(item: Record<string, unknown>): PlanItem[] {
  const { status } = item;
  const text = TASK_TEXTS.map((key) => item[key]).find((value) => typeof value === "string");
  if (typeof status !== "string" || typeof text !== "string") return [];
  return [{ text, state: STATES.find(([words]) => words.test(status))?.[1] ?? "open" }];
}

/** Maximum number of characters of an output that a summary quotes. */
const LONGEST_EXTRACT = 400;
const FILE_READERS = /^(?:cat|head|tail|less|sed)\b/;

/** Lines that Codex, Gemini and Claude Code put before an output, and after it. */
const FRAME_BEFORE =
  /^(?:(?:Script \w+|Chunk ID: \S+|Wall time:? [\d.]+ \w+|Process (?:exited|running) with .*|Original token count: \d+|Exit code:? -?\d+|Command: .*|Directory: .*)\n+)*(?:Output:(?:\s+|$))?/i;
const FRAME_AFTER =
  /(?:\n(?:Error: \(none\)|Exit Code: -?\d+|Signal: \S+|Background PIDs: .*|Process Group PGID: \d+))+$/i;
const LONGEST_FRAME = 2_000;

/** Returns an output without the lines that an agent put around it: times, exit codes, reminders for the model. */
function ownOutput(output: string): string {
  let text = output.trim();
  while (text.endsWith("</system-reminder>")) {
    const at = text.lastIndexOf("<system-reminder>");
    if (at === -1) break;
    text = text.slice(0, at).trimEnd();
  }
  const after = text.slice(-LONGEST_FRAME).search(FRAME_AFTER);
  if (after !== -1) text = text.slice(0, Math.max(0, text.length - LONGEST_FRAME) + after);
  text = text.replace(FRAME_BEFORE, "").trim();
  return text === "(empty)" ? "" : text;
}

/**
 * Returns the output of a call: the whole one up to 400 characters, else both ends of it, or the beginning of
 * structured data. Undefined for the text of a file and for the report of a change.
 */
export function extractOf(
  { label, purpose, command, paths }: CallDescription,
  output: string,
): string | undefined {
  const isText =
    command === undefined ? /^\w*(?:read|view|open|cat)/i.test(label) : FILE_READERS.test(command.key);
  if (paths.length > 0 && (isText || purpose === "edit" || purpose === "write")) return undefined;
  const text = ownOutput(output);
  if (text.length <= LONGEST_EXTRACT) return text;
  if (/^[[{]/.test(text)) return text.slice(0, LONGEST_EXTRACT);
  const [head, tail] = [text.slice(0, LONGEST_EXTRACT / 2), text.slice(-LONGEST_EXTRACT / 2)];
  return `${head.slice(0, head.lastIndexOf("\n") + 1) || head} … ${tail.slice(tail.indexOf("\n") + 1)}`;
}

/** Result of a tool call or a shell command. */
export interface Outcome {
  failed: boolean;
  /** Line with the reason of a failure, if there is one; after the name of the test that failed. */
  errorLine: string | undefined;
}

/** Numbers of characters that are searched for errors at the beginning and at the end of an output. */
const SEARCHED_HEAD = 8_000;
const SEARCHED_TAIL = 16_000;
const LONGEST_LINE = 400;
const EXIT_CODE = /(?:exited with (?:exit )?(?:code|status)|exit (?:code|status)):?\s+(-?\d+)/i;

/** First line of an output of Codex for a program that failed; its result is not marked as an error. */
const SCRIPT_FAILED = /^\s*Script failed\n/;

/** Patterns of lines that report a failure whatever the exit code is, the clearest first. */
const FAILURES = [
  /\berror(?: (?:TS|E|CS|C)\d+|\[E\d+\])\b|^\s*(?:(?:\w+\.)*\w*(?:Error|Exception)\b\s*:|\w*(?:Error|Exception)\s*\()/,
  /^\s*(?:FAILED|FAIL|✗|✘|×|not ok)\b|^\s*(?:[✗✘×])\s|^--- FAIL|\bAssertionError\b|\bpanic(?:ked)?\b/,
];

/** Patterns of lines that give the reason of a failure, but may be in an output without one. */
const REASONS = [
  /^\s*[\w./\\-]+\.\w+:\d+(?::\d+)?:? +\S/,
  /^\s*(?:fatal|error|E\s{2,}|ERR!|npm (?:error|ERR!))[: ]|: (?:fatal )?error: |\berror: /i,
  /command not found|No such file or directory|Permission denied|cannot find|could not|segmentation fault|timed? ?out/i,
];

/** Line that names a test that failed, as test runners of Go, JavaScript, Python, Rust and TAP print it. */
const FAILED_TEST =
  /^(?:(?:---|===) FAIL:|FAILED|FAIL|[✗✘×✕●]|not ok \d+(?: -)?)\s+(\S.*?)(?:\s+\(?\d[\d.]*\s?m?s\)?)?$|^test (\S+) \.\.\. FAILED$/;

/** Line of a test runner about a whole package or file. */
const ABOUT_ALL = /^(?:FAIL|FAILED)(?:\s+\S+(?:\s+(?:[\d.]+m?s|\[.*\]|\(.*\)))?|\s*\(.*\))?$/;

/** Line that a test prints about its failure. */
const TEST_SAYS =
  /^\s*(?:E\s{2,}|assert)|\b(?:expect(?:ed|s)?|assert\w*|panic(?:ked)?|got|want(?:ed)?|received|should|must|mismatch)\b/i;

/** Number of lines around the name of a test that are searched for its reason. */
const NEAR = 40;

const HAS_WORD = /\p{L}{2}/u;

/** An error of more than one word. A past failure with only the word FAIL is not informative. */
export const SAYS_WHY = /[\p{L}]{2,}\P{L}+[\p{L}]{2,}|\p{Lo}{3,}/u;

/**
 * Returns the outcome of a call. A command that runs something has also failed when its output has an error line, even
 * if the exit code is 0.
 */
export function outcomeOf(output: string, reported: { isError: boolean; runs: boolean }): Outcome {
  const searched =
    output.length <= SEARCHED_HEAD + SEARCHED_TAIL
      ? output
      : `${output.slice(0, SEARCHED_HEAD)}\n${output.slice(-SEARCHED_TAIL)}`;
  const code = EXIT_CODE.exec(searched.slice(-500)) ?? EXIT_CODE.exec(searched.slice(0, 500));
  const saysFailed = (code !== null && code[1] !== "0") || SCRIPT_FAILED.test(output);
  if (!reported.isError && !saysFailed && !reported.runs) return { failed: false, errorLine: undefined };
  const lines = ownOutput(searched)
    .split("\n")
    .filter(({ length }) => length <= LONGEST_LINE * 4)
    .map((line) => oneLine(line).slice(0, LONGEST_LINE));
  const failed =
    reported.isError || saysFailed || lines.some((line) => FAILURES.some((failure) => failure.test(line)));
  return { failed, errorLine: failed ? errorLine(lines) : undefined };
}

function errorLine(lines: readonly string[]): string | undefined {
  const clear = FAILURES.map((failure) =>
    lines.find((line) => failure.test(line) && !ABOUT_ALL.test(line) && SAYS_WHY.test(line)),
  );
  const reason = REASONS.map((pattern) => lines.find((line) => pattern.test(line)));
  const ended = lines.findLast(
    (line) => HAS_WORD.test(line) && !EXIT_CODE.test(line) && !ABOUT_ALL.test(line),
  );
  const bare = lines.find((line) => FAILURES.some((failure) => failure.test(line)));
  return failedTest(lines) ?? [...clear, ...reason, bare, ended].find((line) => line !== undefined);
}

/** Returns the name of the first test that failed and the line that says why; undefined without both. */
function failedTest(lines: readonly string[]): string | undefined {
  const names = lines.map((line) => {
    const match = ABOUT_ALL.test(line) ? null : FAILED_TEST.exec(line);
    return match?.[1] ?? match?.[2];
  });
  const places = names.flatMap((name, at) => (name === undefined ? [] : [at]));
  for (const [index, at] of places.entries()) {
    const after = lines.slice(at + 1, Math.min(at + NEAR, places[index + 1] ?? lines.length));
    const before = lines.slice(Math.max(0, at - NEAR, (places[index - 1] ?? -1) + 1), at);
    const said = reasonIn(after) ?? reasonIn(before);
    if (said === undefined) continue;
    const isOnly = places.every((place) => names[place] === names[at]);
    return `${names[at]}: ${said}${isOnly ? "" : " (not the only test that failed)"}`;
  }
  return undefined;
}

/** Line of a log, or a label of the lines after it. */
const IS_LOG = /\b(?:TRACE|DEBUG?|INFO)\b|[:：]$/;

/** Returns the line of a test's output that says why it failed, else the last line that names its place in a file. */
function reasonIn(lines: readonly string[]): string | undefined {
  return (
    lines.find((line) => SAYS_WHY.test(line) && (FAILURES[0]!.test(line) || TEST_SAYS.test(line))) ??
    lines.findLast((line) => SAYS_WHY.test(line) && REASONS[0]!.test(line) && !IS_LOG.test(line))
  );
}
