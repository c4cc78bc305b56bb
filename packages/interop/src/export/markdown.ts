// Separate from export-session.ts: each format has a file.
import { jsonText, wellFormedJson } from "@espalier/jsonl-stream";
import {
  bashExecutionText,
  type ContentBlock,
  type ContextMessage,
  contentBlocks,
  customMessage,
  DAMAGED,
  DrawnTree,
  type Entry,
  type EntryKind,
  fieldText,
  formatMany,
  isBookkeeping,
  isBookkeepingAt,
  type LabelInForce,
  labelsInForce,
  type MessageEntry,
  movingRow,
  type OwnEntry,
  pathMarks,
  plainJson,
  plainLine,
  plainText,
  type ToolResultMessage,
  type Tree,
  titleOf,
} from "@espalier/session-tree";
import { cutText } from "@espalier/summarizer";
import type { ExportSource } from "./source.ts";

/**
 * Writes a document for people: front matter, a title, then one section for each shown entry of the path, or of all branches.
 * Prompts and answers are written as Markdown; their headings are below those of the document. Thinking, results,
 * arguments, state of agents, output of shells and messages of errors are in fences; all but thinking and messages of errors
 * are cut at 2,000 characters, with the number of omitted characters. Returns the number of entries in the document.
 *
 * @param all true: all branches instead of one path, and also bookkeeping of agents
 */
export function* exportMarkdown(source: ExportSource, all: boolean): Generator<string, number> {
  const { tree, endRow } = source;
  const labels = labelsInForce(tree);
  const name = titleOf(tree);
  const title = name === undefined ? undefined : source.text(name);
  yield frontMatter(source, title);
  yield `\n# ${title === undefined ? "Session" : headingText(title)}\n`;
  const leftOut = all ? [] : omittedFromPath(source);
  if (leftOut.length > 0) yield `\n*This is one path of the session, without ${leftOut.join(" and ")}.*\n`;
  const sections = all ? branchSections(tree, endRow) : [{ rows: source.pathRows(), after: -1 }];
  let entries = 0;
  let number = 0;
  for (const { rows, after } of sections) {
    number++;
    const place = after < 0 ? "from the beginning" : `after ${inline(tree.idAt(after))}`;
    if (number > 1) yield `\n# Branch ${number}, ${place}\n`;
    for (const row of rows) {
      const told = section(source, row, labels, all);
      if (told === "") continue;
      entries++;
      yield told;
    }
  }
  return entries;
}

/**
 * Names the entries that the document of one path does not have, and the document of all branches has. Bookkeeping of
 * agents that has a label is shown.
 */
export function omittedFromPath({ tree, endRow }: ExportSource): string[] {
  const labels = labelsInForce(tree);
  const isOnPath = pathMarks(tree, endRow);
  let branches = 0;
  let bookkeeping = 0;
  for (let row = 0; row < tree.length; row++) {
    const kind = tree.kindAt(row);
    if (!isShown(kind) && (kind.type !== "" || tree.entryAt(row).type !== DAMAGED)) continue;
    if (isOnPath[row] !== 1) branches++;
    else if (isBookkeepingAt(tree, row) && !labels.has(tree.idAt(row))) bookkeeping++;
  }
  return [...omittedPhrase(branches, "of other branches"), ...omittedPhrase(bookkeeping, "of bookkeeping")];
}

/** Names omitted entries for people: `12 entries of other branches`, `3 entries of bookkeeping`; empty when there are none. */
export const omittedPhrase = (entries: number, kind: string): string[] =>
  entries > 0 ? [`${formatMany(entries, "entry", "entries")} ${kind}`] : [];

/** Returns YAML front matter; JSON strings are YAML strings, and control characters are escaped. */
function frontMatter(source: ExportSource, title: string | undefined): string {
  const { header, tree, endId } = source;
  const fields: [string, unknown][] = [
    ["title", title],
    ["session", header?.id],
    ["created", header?.timestamp],
    ["cwd", header?.cwd],
    ["agent", header?.importedFrom?.agent],
    ["leaf", endId],
    ["entries", tree.length],
  ];
  const lines = fields.flatMap(([field, value]) =>
    value == null ? [] : [`${field}: ${plainJson(wellFormedJson(jsonText(value)))}`],
  );
  return `---\n${lines.join("\n")}\n---\n`;
}

function section(
  source: ExportSource,
  row: number,
  labels: ReadonlyMap<string, LabelInForce>,
  all: boolean,
): string {
  const entry = source.entryAt(row);
  if (!all && !labels.has(entry.id) && isBookkeeping(entry)) return "";
  const [heading, ...paragraphs] = renderEntry(source.tree.kindAt(row), entry);
  if (heading === undefined) return "";
  const label = labels.get(entry.id);
  const named = label === undefined ? "" : ` — ${headingText(source.text(label.label))}`;
  const meta = [inline(entry.id), ...(entry.timestamp === "" ? [] : [inline(entry.timestamp)])].join(" · ");
  return `\n## ${heading}${named}\n\n${[meta, ...paragraphs.filter((text) => text !== "")].join("\n\n")}\n`;
}

/** A run of entries along one branch, and the entry of another section that the run follows. */
interface BranchSection {
  rows: number[];
  /** Row that the run follows; -1 for a run that begins at the root. */
  after: number;
}

/**
 * Divides all branches of a tree into sections, each entry in one of them. At each fork the branch towards `endRow`
 * continues the section, else the first branch; the others become separate sections, in the order in which their forks
 * are found. Entries outside the conversation are no branches.
 */
function* branchSections(tree: Tree, endRow: number): Generator<BranchSection> {
  const shape = new DrawnTree(tree, endRow, false);
  const active = shape.roots.find((row) => shape.isActive(row));
  const starts =
    active === undefined ? [...shape.roots] : [active, ...shape.roots.filter((row) => row !== active)];
  // The list grows during the loop: new sections are added at its end.
  for (const start of starts) {
    const rows: number[] = [];
    for (let row = start; row >= 0; row = shape.straight(row)) {
      rows.push(row);
      starts.push(...shape.aside(row));
    }
    yield { rows, after: movingRow(tree, tree.index.parent(start)) };
  }
}

/** Section of an entry: a heading (without its mark), then paragraphs, of which empty ones are left out. */
type MarkdownEntry = string[];

const ROLES: Record<string, string> = {
  user: "User",
  bashExecution: "Shell",
  system: "System",
  custom: "Note",
};

/** Sections of the format's kinds. Entries of another kind have one of their messages, or of their line in a list. */
const RENDERERS: { readonly [E in Exclude<Entry, OwnEntry> as E["type"]]?: (entry: E) => MarkdownEntry } = {
  message({ message: spoken }) {
    const paragraphs = messageParagraphs(spoken);
    if (spoken.role === "assistant") {
      const model = `${fieldText(spoken.provider) || "?"}/${fieldText(spoken.model) || "?"}`;
      return [`Assistant (${inline(model)})`, ...paragraphs];
    }
    if (spoken.role === "toolResult")
      return [
        `${spoken.isError === true ? "Failed result" : "Result"} of ${inline(spoken.toolName)}`,
        ...paragraphs,
      ];
    return [Object.hasOwn(ROLES, spoken.role) ? ROLES[spoken.role]! : inline(spoken.role), ...paragraphs];
  },
  custom_message: (entry) => [
    `Note (${inline(entry.customType)})`,
    ...customMessage.toMessages!(entry).flatMap(messageParagraphs),
  ],
  custom: ({ customType, data }) => [
    `State (${inline(customType)})`,
    data === undefined ? "" : jsonFence(data),
  ],
  compaction: ({ id, summary, firstKeptEntryId, tokensBefore }) => [
    "Compaction",
    firstKeptEntryId === id
      ? `Everything before is replaced by this summary (${inline(tokensBefore)} tokens).`
      : `Everything before ${inline(firstKeptEntryId)} is replaced by this summary (the context had ${inline(tokensBefore)} tokens).`,
    said(summary),
  ],
  branch_summary: ({ summary, fromId }) => [
    "Summary of another branch",
    `The branch was left at ${inline(fromId)}.`,
    said(summary),
  ],
  context_edit: ({ targetId, replacement }) =>
    replacement === null
      ? ["Edit", `From here on ${inline(targetId)} is left out of the context.`]
      : [
          "Edit",
          `From here on the content of ${inline(targetId)} is:`,
          ...messageParagraphs({ role: "user", content: replacement.content, timestamp: 0 }),
        ],
  model_change: ({ provider, modelId }) => [`Model: ${inline(`${provider}/${modelId}`)}`],
  thinking_level_change: ({ thinkingLevel }) => [`Thinking: ${inline(thinkingLevel)}`],
};

/** Returns whether the entries of a kind have a section: they are in the conversation, and are more than data. */
const isShown = ({ movesLeaf, toMessages, draw }: EntryKind): boolean =>
  movesLeaf && (toMessages ?? draw) !== undefined;

/** Returns the section of an entry; an empty list for one that is not shown. */
function renderEntry(kind: EntryKind, entry: Entry): MarkdownEntry {
  const type = inline(entry.type);
  if (entry.type === DAMAGED) return ["An entry that can no longer be read"];
  if (!isShown(kind)) return [];
  if (kind.problem?.(entry)) return [`An invalid entry of type ${type}`];
  if (Object.hasOwn(RENDERERS, kind.type)) return RENDERERS[kind.type as "message"]!(entry as MessageEntry);
  const messages = kind.toMessages?.(entry) ?? [];
  if (messages.length > 0) return [`Entry (${type})`, ...messages.flatMap(messageParagraphs)];
  return [`Entry (${type})`, said(kind.draw?.(entry) ?? "")];
}

/**
 * Maximum number of shown characters of a text in a tool's result, a call's arguments, an agent's state or a shell's
 * output; the number of the others is shown.
 */
const SHOWN = 2_000;

function messageParagraphs(message: ContextMessage): string[] {
  switch (message.role) {
    case "toolResult":
      return resultParagraphs(message);
    case "bashExecution":
      return [fenced(cutText(bashExecutionText(message), SHOWN))];
    case "system":
      return [
        ...contentBlocks(message).map(blockParagraph),
        ...Object.entries(message.sections ?? {}).map(([name, text]) =>
          text === null
            ? `Section ${inline(name)} removed`
            : `**${inline(name)}**\n\n${said(fieldText(text))}`,
        ),
      ];
    case "assistant":
      return [...contentBlocks(message).map(blockParagraph), failure(message)];
    default:
      return contentBlocks(message).map(blockParagraph);
  }
}

/** Returns each text of a result in a fence, cut because it can have any length; `(no output)` for an empty result. */
function resultParagraphs(message: ToolResultMessage): string[] {
  const paragraphs = contentBlocks(message).map((block) =>
    block.type === "text" ? fenced(cutText(fieldText(block.text), SHOWN)) : blockParagraph(block),
  );
  return paragraphs.length > 0 ? paragraphs : ["(no output)"];
}

const jsonFence = (value: unknown): string => fenced(cutText(jsonText(value, 2), SHOWN), "json");

function blockParagraph(block: ContentBlock): string {
  switch (block.type) {
    case "text":
      return said(fieldText(block.text));
    case "thinking":
      return block.redacted
        ? "**Thinking** (encrypted)"
        : `**Thinking**\n\n${fenced(fieldText(block.thinking))}`;
    case "toolCall":
      return `**Call** ${inline(block.name)}\n\n${jsonFence(block.arguments)}`;
    case "image": {
      const bytes = Math.floor((fieldText(block.data).length * 3) / 4);
      return `(image, ${inline(block.mimeType)}, ${bytes} bytes)`;
    }
    default:
      return `(content of type ${inline((block as { type: string }).type)})`;
  }
}

function failure({ stopReason, errorMessage }: ContextMessage & { role: "assistant" }): string {
  if (stopReason !== "error" && stopReason !== "aborted") return "";
  const reason = typeof errorMessage === "string" && errorMessage !== "" ? `\n\n${fenced(errorMessage)}` : "";
  return `**${stopReason === "error" ? "Failed" : "Aborted"}**: not part of the context.${reason}`;
}

/**
 * Returns a prompt or an answer as Markdown that cannot end or imitate the document around it: its headings are moved
 * two levels down, and tags are escaped. A text with an unclosed fence is put into a fence as a whole.
 */
function said(text: string): string {
  const lines = plainText(text).trimEnd().split("\n");
  const written: string[] = [];
  let open: Fence | undefined;
  for (const [at, line] of lines.entries()) {
    const mark = fenceIn(line);
    if (open) {
      // An indented fence is only valid inside a list, and ends with the list item.
      if (open.indent > DEEPEST_FENCE && line.trim() !== "" && indentOf(line) < open.indent)
        return fenced(text);
      if (mark?.info === "" && mark.marks.startsWith(open.marks)) open = undefined;
      written.push(line);
    } else if (mark) {
      open = mark;
      written.push(line);
    } else written.push(withoutStructure(line, lines[at - 1] ?? ""));
  }
  return open ? fenced(text) : written.join("\n");
}

/** The line that opens or closes a block of code. */
interface Fence {
  marks: string;
  indent: number;
  /** Text after the marks. */
  info: string;
}

/** Maximum number of spaces before a fence outside a list. */
const DEEPEST_FENCE = 3;
const indentOf = (line: string): number => line.length - line.trimStart().length;

function fenceIn(line: string): Fence | undefined {
  const [, marks, info = ""] = /^\s*(`{3,}|~{3,})(.*)$/.exec(line) ?? [];
  if (marks === undefined || (marks.startsWith("`") && info.includes("`"))) return undefined;
  return { marks, indent: indentOf(line), info: info.trim() };
}

/** Returns a line outside of code, with headings, definitions and tags of the document escaped. */
function withoutStructure(line: string, above: string): string {
  const [heading, marks = ""] = /^ {0,3}(#{1,6})(?=\s|$)/.exec(line) ?? [];
  if (heading !== undefined)
    return withoutTags(`${"#".repeat(Math.min(6, marks.length + 2))}${line.slice(heading.length)}`);
  if (/^ {0,3}(?:=+|-+)\s*$/.test(line)) return above.trim() === "" ? "***" : `\\${line.trim()}`;
  return withoutTags(/^ {0,3}\[[^\]]+\]:/.test(line) ? line.replace("[", "\\[") : line);
}

/** Escapes tags and comments; code within the line, and addresses between angle brackets, are unchanged. */
const withoutTags = (line: string): string =>
  line.replace(/(`+)(?!`).*?[^`]\1(?!`)|<(?=[a-z!?/])(?!https?:)/gi, (found) =>
    found === "<" ? "\\<" : found,
  );

/** Returns unchanged text in a fence that is longer than any fence in the text. */
function fenced(text: string, language = ""): string {
  const lines = plainText(text).trimEnd();
  const ticks = Array.from(lines.matchAll(/`+/g), ([found]) => found.length);
  const fence = "`".repeat(ticks.reduce((most, count) => Math.max(most, count), 2) + 1);
  return `${fence}${language}\n${lines}\n${fence}`;
}

/** Returns a short text within a line, as code, with `'` for each backtick; a question mark for an empty text. */
function inline(text: unknown): string {
  const line = plainLine(fieldText(text)).replaceAll("`", "'");
  return line === "" ? "`?`" : `\`${line}\``;
}

/** Returns a short text for a heading: one line, without Markdown. */
function headingText(text: string): string {
  return plainLine(text).replace(/[\\`*_[\]#|<>~&]/g, "\\$&");
}
