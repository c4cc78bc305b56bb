import type { EntryBody } from "../import-entry.ts";
import type { ImportIssues } from "../import-issue.ts";
import { stateBody } from "./beside-bodies.ts";
import type { Line } from "./hearing.ts";
import type { LineTable } from "./line-table.ts";

const IN_MESSAGES = "what it said is in the messages";

/** Lines without a place in the tree that say nothing about the conversation, and why. */
const BOOKKEEPING: ReadonlyMap<string, string> = new Map([
  ["api-request", `it says how a request was put together; ${IN_MESSAGES}`],
  ["api-request-shape", `it says how a request was put together; ${IN_MESSAGES}`],
  ["api-request-blob", `it is a part of a request; ${IN_MESSAGES}`],
  ["atis-latch", "it is a switch of the agent's own transport"],
  ["last-prompt", "it is a hint at the newest prompt, which stands in the conversation"],
  ["queue-operation", "it is about the queue of prompts; those that were sent stand in the conversation"],
  ["tools-used", "it lists names of tools, which stand in the calls"],
]);

/** Why a line is left out, as a sentence; undefined for one that is kept. */
export function reasonToLeaveOut(type: string): string | undefined {
  const reason = BOOKKEEPING.get(type);
  return reason && `\`${type}\` is left out: ${reason}.`;
}

/** Types of lines that are kept as state, and are no surprise. */
const KNOWN_STATE: ReadonlySet<string> = new Set([
  "agent-name",
  "bridge-session",
  "content-replacement",
  "cost-state",
  "file-history-snapshot",
  "mode",
  "permission-mode",
  "pr-link",
]);

/** Lines that name the session, the weakest first, and the field with the name. */
const NAMES: readonly [type: string, field: string][] = [
  ["summary", "summary"],
  ["ai-title", "aiTitle"],
  ["custom-title", "customTitle"],
];

/** Reads the lines without a place in the tree that are kept: names of the session, and state of the agent. */
export class AsideLines {
  readonly #table: LineTable;
  readonly #issues: ImportIssues;
  /** The rank of the name that holds: a weaker one does not replace it. */
  #rank = 0;

  constructor(table: LineTable, issues: ImportIssues) {
    this.#table = table;
    this.#issues = issues;
  }

  body(line: Line, lineNumber: number): EntryBody {
    const type = typeof line["type"] === "string" ? line["type"] : "";
    const rank = NAMES.findIndex(([name]) => name === type);
    if (rank < 0) {
      if (!KNOWN_STATE.has(type))
        this.#issues.add("unknown-type", lineNumber, "Lines of a type that is not known are kept as state.");
      return stateBody(line, type || "line");
    }
    const name = nameIn(line, NAMES[rank]![1]);
    const { leafUuid } = line;
    const isOfOther = typeof leafUuid === "string" && this.#table.rowOf(leafUuid) < 0;
    if (name === undefined || rank < this.#rank || isOfOther) return stateBody(line, type);
    this.#rank = rank;
    return { type: "session_info", name };
  }
}

function nameIn(line: Line, field: string): string | undefined {
  const names = [field, "title", "name"].map((key) => line[key]);
  return names.find((name): name is string => typeof name === "string" && name !== "");
}
