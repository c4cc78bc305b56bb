import { contentBlocks, isRecord, type UserContent } from "@espalier/session-tree";
import type { FormatIssues } from "../formats/format-issue.ts";
import type { EntryBody } from "../import-entry.ts";
import type { Line } from "./hearing.ts";
import { readContent } from "./user-bodies.ts";

/** Fields of a line that say where it belongs and who wrote it, not what it says. */
const ENVELOPE: ReadonlySet<string> = new Set([
  "type",
  "uuid",
  "parentUuid",
  "logicalParentUuid",
  "timestamp",
  "sessionId",
  "isSidechain",
  "isMeta",
  "cwd",
  "version",
  "gitBranch",
  "userType",
  "entrypoint",
  "slug",
]);

/** A line as state of the agent: under its own name, with all that it says. */
export function stateBody(line: Line, name: string): EntryBody {
  const data = Object.fromEntries(Object.entries(line).filter(([field]) => !ENVELOPE.has(field)));
  return { type: "custom", customType: `claude-code.${shortName(name)}`, data };
}

/**
 * What was put into a request beside the conversation. What the model saw of it is a hidden message; where the file does
 * not say that, it is state.
 */
export function attachmentBody(line: Line, place: string, issues: FormatIssues): EntryBody {
  const attachment = isRecord(line["attachment"]) ? line["attachment"] : {};
  const { type } = attachment;
  const name = shortName(typeof type === "string" ? type : "attachment");
  const content = renderedContent(line["rendered"], place, issues) ?? queuedPrompt(attachment, place, issues);
  if (content === undefined) return { type: "custom", customType: `claude-code.${name}`, data: attachment };
  const renderedRole = typeof line["renderedRole"] === "string" ? { renderedRole: line["renderedRole"] } : {};
  return {
    type: "custom_message",
    customType: `claude-code.${name}`,
    content,
    display: false,
    details: { attachment, ...renderedRole },
  };
}

function renderedContent(rendered: unknown, place: string, issues: FormatIssues): UserContent | undefined {
  if (!Array.isArray(rendered) || rendered.length === 0) return undefined;
  const contents = rendered.filter(isRecord).map(({ content }) => readContent(content ?? [], place, issues));
  const [only] = contents;
  if (contents.length === 1 && only !== undefined) return only;
  return contents.flatMap((content) => contentBlocks({ content })) as UserContent;
}

/** What the user typed while the agent was busy. */
function queuedPrompt(attachment: Line, place: string, issues: FormatIssues): UserContent | undefined {
  const { type, prompt } = attachment;
  if (type !== "queued_command" || (typeof prompt !== "string" && !Array.isArray(prompt))) return undefined;
  return readContent(prompt, place, issues);
}

/** Names come from outside: short, and printable. */
function shortName(name: string): string {
  return name.replace(/[^\w.-]+/g, "-").slice(0, 64) || "line";
}
