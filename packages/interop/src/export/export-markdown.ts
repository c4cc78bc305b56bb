import { jsonText, wellFormedJson } from "@espalier/jsonl-stream";
import { type LabelInForce, labelsInForce, plainJson, sessionName } from "@espalier/session-tree";
import type { ExportSource } from "./export-source.ts";
import { branchSections } from "./markdown-branches.ts";
import { tellEntry } from "./markdown-entry.ts";
import { headingText, inline } from "./markdown-text.ts";

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

/** YAML; JSON strings are YAML strings, and what could act on who reads them is escaped. */
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
  const told = tellEntry(entry);
  if (!told) return "";
  const label = labels.get(entry.id);
  const named = label === undefined ? "" : ` — ${headingText(source.text(label.label))}`;
  const meta = [inline(entry.id), ...(entry.timestamp === "" ? [] : [inline(entry.timestamp)])].join(" · ");
  return `\n## ${told.heading}${named}\n\n${[meta, ...told.paragraphs].join("\n\n")}\n`;
}
