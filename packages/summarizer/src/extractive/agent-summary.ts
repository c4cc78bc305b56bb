// Beside `lines.ts`, its only importer: it knows the forms of other programs, and changes when one of them does.

/**
 * Sections of a summary by Claude Code, by number and title, with the heading of the same meaning here. The titles are
 * those of its compaction since 1.0 (2025). Sections without a heading are left out: the session has the messages of
 * the user, and code can be read again.
 */
const NUMBERED: ReadonlyMap<string, string | undefined> = new Map([
  ["primary request and intent", "Goal"],
  ["key technical concepts", "Critical Context"],
  ["files and code sections", "Files"],
  ["errors and fixes", "Key Decisions"],
  ["problem solving", "Key Decisions"],
  ["all user messages", undefined],
  ["pending tasks", "Next Steps"],
  ["current work", "In Progress"],
  ["optional next step", "Next Steps"],
]);

/** Elements of a `<state_snapshot>` of Gemini CLI, with the heading of the same meaning here. */
const TAGGED: ReadonlyMap<string, string> = new Map([
  ["overall_goal", "Goal"],
  ["active_constraints", "Constraints & Preferences"],
  ["key_knowledge", "Critical Context"],
  ["file_system_state", "Files"],
  ["recent_actions", "Done"],
  ["current_plan", "Next Steps"],
  ["task_state", "Next Steps"],
]);

const FIRST_SECTION = /^\s{0,3}1\. Primary Request and Intent:/i;

/** Sentences that Claude Code puts around a summary. */
const FRAME =
  /^(?:This session is being continued from|If you need specific details from before|Please continue the conversation from|Continue the conversation from|Recent messages are preserved)/;

/**
 * Returns the lines of a summary with the headings of this summarizer, if Claude Code or Gemini CLI wrote it. The lines
 * of any other summary are returned unchanged.
 */
export function withOwnHeadings(lines: readonly string[]): readonly string[] {
  const first = lines.findLastIndex((line) => FIRST_SECTION.test(line));
  if (first >= 0) return fromNumbered(lines.slice(first));
  if (lines.some((line) => line.includes("<state_snapshot>"))) return lines.flatMap(fromTagged);
  return lines;
}

function fromNumbered(lines: readonly string[]): string[] {
  const own: string[] = [];
  let heading: string | undefined;
  let number = 0;
  let isCode = false;
  for (const line of lines) {
    if (/^\s*```/.test(line)) isCode = !isCode;
    else if (FRAME.test(line)) return own;
    const [, digits, title = "", rest = ""] =
      /^\s{0,3}(\d{1,2})\. ([A-Z][^:]{2,60}):\s*(.*)$/.exec(line) ?? [];
    const isTitle = Number(digits) === number + 1 && (NUMBERED.has(title.toLowerCase()) || rest === "");
    if (isTitle) {
      // A fence that is never closed ends with its section.
      isCode = false;
      number += 1;
      heading = NUMBERED.has(title.toLowerCase()) ? NUMBERED.get(title.toLowerCase()) : title;
      if (heading !== undefined) own.push(`## ${heading}`, rest);
    } else if (heading !== undefined && !isCode && !/^\s*```/.test(line)) {
      own.push(heading === "Files" ? fileLine(line) : line);
    }
  }
  return own;
}

/** Returns a line that names a file, or nothing: the other lines describe code that can be read again. */
function fileLine(line: string): string {
  const path = /^\s*[-*]?\s*\*{0,2}`([^`\s]+\.[^`\s]+)`/.exec(line)?.[1];
  return path === undefined ? "" : `- Also used: \`${path}\``;
}

function fromTagged(line: string): string[] {
  const [, tag = "", rest = ""] = /^\s*<([a-z_]+)>(.*)$/.exec(line) ?? [];
  const heading = TAGGED.get(tag);
  const text = (heading === undefined ? line : rest).replace(/<\/?[a-z_]+>\s*$/, "");
  return heading === undefined ? [text] : [`## ${heading}`, text];
}
