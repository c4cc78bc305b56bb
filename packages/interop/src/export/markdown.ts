import { jsonText, wellFormedJson } from "@espalier/jsonl-stream";
import {
  bashExecutionText,
  branchSummary,
  ChildIndex,
  type ContentBlock,
  type ContextMessage,
  compaction,
  contentBlocks,
  contextEdit,
  customMessage,
  DAMAGED,
  type Entry,
  type EntryKind,
  fieldText,
  type LabelInForce,
  labelsInForce,
  message,
  modelChange,
  plainJson,
  plainLine,
  plainText,
  sessionName,
  type ToolResultMessage,
  type Tree,
  thinkingLevelChange,
} from "@espalier/session-tree";
import { cutText } from "@espalier/summarizer";
import type { ExportSource } from "./source.ts";

/**
 * A document for people: front matter, then what was said along the path, or on all branches, one section an entry. What
 * was said is quoted; results, arguments and output of shells stand in fences, cut at 2,000 characters with the number
 * of those left out. Returns how many entries are told.
 *
 * @param all all branches instead of one path
 */
export function* exportMarkdown(source: ExportSource, all: boolean): Generator<string, number> {
  const { tree, endRow } = source;
  const labels = labelsInForce(tree);
  const name = sessionName(tree);
  const title = name === undefined ? undefined : source.text(name);
  yield frontMatter(source, title);
  yield `\n# ${title === undefined ? "Session" : headingText(title)}\n`;
  let entries = 0;
  const tell = function* (rows: readonly number[]): Generator<string> {
    for (const row of rows) {
      const told = section(source, row, labels);
      if (told === "") continue;
      entries++;
      yield told;
    }
  };
  if (!all) {
    yield* tell(source.pathRows());
    return entries;
  }
  let number = 0;
  for (const { rows, after } of branchSections(tree, endRow)) {
    number++;
    if (number > 1) {
      const place = after < 0 ? "from the beginning" : `after ${inline(tree.idAt(after))}`;
      yield `\n# Branch ${number}, ${place}\n`;
    }
    yield* tell(rows);
  }
  return entries;
}

/** YAML; JSON strings are YAML strings, and control characters are escaped. */
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

function section(source: ExportSource, row: number, labels: ReadonlyMap<string, LabelInForce>): string {
  const entry = source.entryAt(row);
  const told = renderEntry(entry);
  if (!told) return "";
  const label = labels.get(entry.id);
  const named = label === undefined ? "" : ` — ${headingText(source.text(label.label))}`;
  const meta = [inline(entry.id), ...(entry.timestamp === "" ? [] : [inline(entry.timestamp)])].join(" · ");
  return `\n## ${told.heading}${named}\n\n${[meta, ...told.paragraphs].join("\n\n")}\n`;
}

/** A run of entries without a fork in it that is shown, and where it leaves what was shown before. */
interface BranchSection {
  rows: number[];
  /** The row it follows; -1 for one that begins the session. */
  after: number;
}

/**
 * All branches of a tree as sections, each entry in one of them. From each fork the branch towards `endRow` goes straight
 * on, else the first; the others are sections of their own, in the order in which their forks are met. Entries beside
 * the conversation are no branches.
 */
function* branchSections(tree: Tree, endRow: number): Generator<BranchSection> {
  const { index } = tree;
  const children = new ChildIndex(tree);
  const isOnPath = new Uint8Array(tree.length);
  for (let row = endRow; row >= 0; row = index.parent(row)) isOnPath[row] = 1;
  const leads = leadsToEntries(tree);
  const straightOn = (rows: number[]): number | undefined =>
    rows.find((row) => isOnPath[row] === 1) ?? rows[0];

  const roots = children.roots.filter((row) => leads[row] === 1);
  const first = straightOn(roots);
  const starts = first === undefined ? [] : [first, ...roots.filter((row) => row !== first)];
  // A list that is read while it grows: sections found on the way wait at its end.
  for (const start of starts) {
    const rows: number[] = [];
    let row: number | undefined = start;
    while (row !== undefined) {
      if (tree.kindAt(row).movesLeaf) rows.push(row);
      const following: number[] = [...children.of(row)].filter((child) => leads[child] === 1);
      row = straightOn(following);
      for (const child of following) if (child !== row) starts.push(child);
    }
    yield { rows, after: shownAbove(tree, start) };
  }
}

/** For each row 1 when it, or something below it, is part of the conversation. */
function leadsToEntries(tree: Tree): Uint8Array {
  const leads = new Uint8Array(tree.length);
  for (let row = tree.length - 1; row >= 0; row--) {
    if (tree.kindAt(row).movesLeaf) leads[row] = 1;
    const parent = tree.index.parent(row);
    if (leads[row] === 1 && parent >= 0) leads[parent] = 1;
  }
  return leads;
}

function shownAbove(tree: Tree, row: number): number {
  let above = tree.index.parent(row);
  while (above >= 0 && !tree.kindAt(above).movesLeaf) above = tree.index.parent(above);
  return Math.max(above, -1);
}

/** Section of an entry: a heading (without its mark) and paragraphs. */
interface MarkdownEntry {
  heading: string;
  paragraphs: string[];
}

const ROLES: Record<string, string> = {
  user: "User",
  assistant: "Assistant",
  toolResult: "Result",
  bashExecution: "Shell",
  system: "System",
  custom: "Note",
};

/** Rendering of a kind of entry; a kind that has none is not shown. */
interface EntryRenderer<E extends Entry> {
  kind: EntryKind<E>;
  render(entry: E): MarkdownEntry;
}

const renderer = <E extends Entry>(
  kind: EntryKind<E>,
  render: (entry: E) => MarkdownEntry,
): EntryRenderer<Entry> => ({ kind, render }) as unknown as EntryRenderer<Entry>;

const renderers: readonly EntryRenderer<Entry>[] = [
  renderer(message, ({ message: said }) => {
    const role = Object.hasOwn(ROLES, said.role) ? ROLES[said.role]! : inline(said.role);
    if (said.role === "assistant")
      return {
        heading: `${role} (${inline(`${fieldText(said.provider) || "?"}/${fieldText(said.model) || "?"}`)})`,
        paragraphs: messageParagraphs(said),
      };
    if (said.role !== "toolResult") return { heading: role, paragraphs: messageParagraphs(said) };
    const outcome = said.isError === true ? "Failed result" : role;
    return { heading: `${outcome} of ${inline(said.toolName)}`, paragraphs: messageParagraphs(said) };
  }),
  renderer(customMessage, (entry) => ({
    heading: `Note (${inline(entry.customType)})`,
    paragraphs: customMessage.toMessages!(entry).flatMap(messageParagraphs),
  })),
  renderer(compaction, ({ id, summary, firstKeptEntryId, tokensBefore }) => ({
    heading: "Compaction",
    paragraphs: [
      firstKeptEntryId === id
        ? `Everything before is replaced by this summary (${inline(tokensBefore)} tokens).`
        : `What stands before ${inline(firstKeptEntryId)} is replaced by this summary (the context had ${inline(tokensBefore)} tokens).`,
      quoted(summary),
    ],
  })),
  renderer(branchSummary, ({ summary, fromId }) => ({
    heading: "Summary of another branch",
    paragraphs: [`The branch was left at ${inline(fromId)}.`, quoted(summary)],
  })),
  renderer(contextEdit, ({ targetId, replacement }) =>
    replacement === null
      ? { heading: "Edit", paragraphs: [`From here on ${inline(targetId)} is left out of the context.`] }
      : {
          heading: "Edit",
          paragraphs: [
            `From here on ${inline(targetId)} says:`,
            ...messageParagraphs({ role: "user", content: replacement.content, timestamp: 0 }),
          ],
        },
  ),
  renderer(modelChange, ({ provider, modelId }) => ({
    heading: `Model: ${inline(`${provider}/${modelId}`)}`,
    paragraphs: [],
  })),
  renderer(thinkingLevelChange, ({ thinkingLevel }) => ({
    heading: `Thinking: ${inline(thinkingLevel)}`,
    paragraphs: [],
  })),
];

/** Section of an entry; undefined for one that is not shown. */
function renderEntry(entry: Entry): MarkdownEntry | undefined {
  if (entry.type === DAMAGED) return { heading: "An entry that can no longer be read", paragraphs: [] };
  const { type } = entry;
  const found = renderers.find(({ kind }) => kind.type === type);
  if (found && !found.kind.is(entry))
    return { heading: `An entry of type ${inline(type)} that is not sound`, paragraphs: [] };
  return found?.render(entry);
}

/** Characters of a tool's result, a call's arguments or a shell's output that are shown; the rest is counted. */
const SHOWN = 2_000;

function messageParagraphs(message: ContextMessage): string[] {
  switch (message.role) {
    case "toolResult":
      return resultParagraphs(message);
    case "bashExecution":
      return [fenced(cutText(bashExecutionText(message), SHOWN))];
    case "compactionSummary":
    case "branchSummary":
      return [quoted(fieldText(message.summary))];
    case "system":
      return [
        ...contentBlocks(message).map(blockParagraph),
        ...Object.entries(message.sections ?? {}).map(([name, text]) =>
          text === null
            ? `Section ${inline(name)} removed`
            : `**${inline(name)}**\n\n${quoted(fieldText(text))}`,
        ),
      ];
    case "assistant":
      return [...contentBlocks(message).map(blockParagraph), ...failure(message)];
    default:
      return contentBlocks(message).map(blockParagraph);
  }
}

/** Results are what they are, and can be long: in a fence, and cut. */
function resultParagraphs(message: ToolResultMessage): string[] {
  const paragraphs = contentBlocks(message).map((block) =>
    block.type === "text" ? fenced(cutText(fieldText(block.text), SHOWN)) : blockParagraph(block),
  );
  return paragraphs.length > 0 ? paragraphs : ["(no output)"];
}

function blockParagraph(block: ContentBlock): string {
  switch (block.type) {
    case "text":
      return quoted(fieldText(block.text));
    case "thinking":
      return block.redacted
        ? "**Thinking** (encrypted)"
        : `**Thinking**\n\n${quoted(fieldText(block.thinking))}`;
    case "toolCall": {
      const given = jsonText(block.arguments, 2);
      return `**Call** ${inline(block.name)}\n\n${fenced(cutText(given, SHOWN), "json")}`;
    }
    case "image": {
      const bytes = Math.floor((fieldText(block.data).length * 3) / 4);
      return `(picture, ${inline(block.mimeType)}, ${bytes} bytes)`;
    }
    default:
      return `(content of type ${inline((block as { type: string }).type)})`;
  }
}

function failure({ stopReason, errorMessage }: ContextMessage & { role: "assistant" }): string[] {
  if (stopReason !== "error" && stopReason !== "aborted") return [];
  const said = typeof errorMessage === "string" && errorMessage !== "" ? `\n\n${quoted(errorMessage)}` : "";
  return [`**${stopReason === "error" ? "Failed" : "Aborted"}**: not part of the context.${said}`];
}

/**
 * Text as a quotation. It is often markdown, and may hold headings, rules or an open fence; inside a quotation it cannot
 * end or imitate the document around it.
 */
function quoted(text: string): string {
  return plainText(text)
    .trimEnd()
    .split("\n")
    .map((line) => (line === "" ? ">" : `> ${line}`))
    .join("\n");
}

/** Text as it is, in a fence that is longer than any in it. */
function fenced(text: string, language = ""): string {
  const lines = plainText(text).trimEnd();
  const longest = Math.max(2, ...Array.from(lines.matchAll(/`+/g), ([ticks]) => ticks.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${language}\n${lines}\n${fence}`;
}

/** A short text within a line, as code. */
function inline(text: unknown): string {
  const line = plainLine(fieldText(text)).replaceAll("`", "'");
  return line === "" ? "`?`" : `\`${line}\``;
}

/** A short text within a heading: one line, without markdown. */
function headingText(text: string): string {
  return plainLine(text).replace(/[\\`*_{}[\]()#+!|<>~&-]/g, "\\$&");
}
