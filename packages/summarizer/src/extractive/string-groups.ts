import { LABELS } from "./labels.ts";
import { codeSpan } from "./quote.ts";
import type { IndexedString } from "./string-index.ts";
import type { FileWork } from "./work-log.ts";

/** A file gets a line of its own when it was changed, or when this many chosen names belong to it. */
const NAMES_FOR_OWN_LINE = 3;

/**
 * Strings as list items: each file with the names that it defines and those that stand in it, then the rest by kind.
 * Names stand in one code span a group, a space between them.
 */
export function groupStrings(
  strings: readonly IndexedString[],
  changed: readonly string[],
  files: ReadonlyMap<string, FileWork>,
): string[] {
  const byHome = new Map<string, IndexedString[]>();
  for (const path of ownLines(strings, changed, files)) byHome.set(path, []);
  const paths = [...byHome.keys()];
  const rest: Record<"paths" | "names" | "values" | "links", string[]> = {
    paths: [],
    names: [],
    values: [],
    links: [],
  };
  for (const string of strings) {
    const { text, kind, home } = string;
    if (paths.some((path) => path === text || path.endsWith(`/${text}`))) continue;
    const atHome = home === undefined ? undefined : byHome.get(home);
    if (kind === "url") rest.links.push(text);
    else if (kind === "path" || kind === "file") rest.paths.push(text);
    else if (atHome !== undefined) atHome.push(string);
    else if (kind === "value" || kind === "flag") rest.values.push(text);
    else rest.names.push(text);
  }
  return [
    ...[...byHome].map(([path, names]) => fileLine(path, names, files.get(path))),
    ...listLine(LABELS.otherPaths, rest.paths),
    ...listLine(LABELS.otherNames, rest.names),
    ...listLine(LABELS.values, rest.values),
    ...listLine(LABELS.links, rest.links),
  ];
}

/** The files with a line of their own: changed ones, homes of several names, and files whose path was chosen. */
function ownLines(
  strings: readonly IndexedString[],
  changed: readonly string[],
  files: ReadonlyMap<string, FileWork>,
): Set<string> {
  const names = new Map<string, number>();
  for (const { home, kind } of strings) {
    if (home !== undefined && kind !== "path") names.set(home, (names.get(home) ?? 0) + 1);
  }
  const homes = [...names].filter(([, count]) => count >= NAMES_FOR_OWN_LINE).map(([home]) => home);
  const chosen = strings.map(({ text }) => text).filter((text) => files.has(text));
  return new Set([...changed, ...homes, ...chosen]);
}

function fileLine(path: string, strings: readonly IndexedString[], work: FileWork | undefined): string {
  const defined = strings.filter((string) => string.defined).map(({ text }) => text);
  const others = strings.filter((string) => !string.defined).map(({ text }) => text);
  const groups: string[] = [];
  if (defined.length > 0) groups.push(`${LABELS.defines}\`${defined.join(" ")}\``);
  if (others.length > 0) groups.push(`\`${others.join(" ")}\``);
  return `- ${codeSpan(path, 300)}${changesOf(work)}${groups.length === 0 ? "" : `: ${groups.join("; ")}`}`;
}

function changesOf(work: FileWork | undefined): string {
  if (work === undefined || work.edits === 0) return "";
  return ` (${work.created ? "created, " : ""}changed ${work.edits}×)`;
}

function listLine(label: string, texts: readonly string[]): string[] {
  return texts.length === 0 ? [] : [`- ${label}\`${texts.join(" ")}\``];
}
