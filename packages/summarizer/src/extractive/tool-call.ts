import { isRecord, type ToolCallBlock } from "@espalier/session-tree";
import { patchedFiles } from "../files/patched-files.ts";
import { PATH_FIELDS } from "../files/path-fields.ts";
import { type Command, readCommand } from "./command.ts";

/** What a call was made for. Read from the arguments first, from the tool's name where they leave it open. */
type CallPurpose = "read" | "edit" | "write" | "run" | "plan" | "other";

/** One item of a task list that the agent keeps. */
export interface PlanItem {
  text: string;
  state: "open" | "doing" | "done";
}

export interface CallDescription {
  purpose: CallPurpose;
  /** The files that the arguments name, as they name them. */
  paths: string[];
  /** The command line of a call that runs one. */
  command: Command | undefined;
  plan: PlanItem[];
}

const COMMAND_KEYS = ["command", "cmd", "script"];
/** The verbs of file tools that put what they do into an argument called `command`. */
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
    return { purpose, paths: command.reads ? readPaths(command.key) : writtenPaths(line), command, plan };
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

/** A command line; `["bash", "-lc", "make"]` is `make`. */
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

/** Files that a shell command plainly writes: `> file`, `tee file`, `sed -i … file`. */
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

/** The files that a reading command names; a single one is what its output is from. */
function readPaths(key: string): string[] {
  const words = key
    .slice(0, 2_000)
    .split(/[\s'"]+/)
    .filter((word) => /^[\w./~@-]+\.\w+$/.test(word));
  return [...new Set(words)];
}

/** A task list: an array of objects with a state and a text, as task and plan tools take it. */
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
