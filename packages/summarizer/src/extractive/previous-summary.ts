import { eachExactString, type StringKind } from "./exact-string.ts";
import { LABELS } from "./labels.ts";
import { oneLine, wholeCodePoints } from "./quote.ts";
import { type Part, partsOf } from "./sections.ts";
import type { Inherited } from "./string-index.ts";
import { headingOf, proseLines } from "./summary-lines.ts";

/** An earlier summary, taken apart. Its lines stand without list marks, in the order they were written. */
export interface PreviousSummary {
  lines: Record<Part, string[]>;
  files: { path: string; edits: number }[];
  commands: string[];
  strings: Inherited[];
}

const LONGEST_LINE = 2_000;

/** Reads summaries, oldest first, that a model or this summarizer wrote. Anything that is no known section counts as critical context. */
export function parseSummaries(texts: readonly string[]): PreviousSummary {
  const summary: PreviousSummary = {
    lines: {
      goal: [],
      constraints: [],
      done: [],
      inProgress: [],
      blocked: [],
      decisions: [],
      nextSteps: [],
      critical: [],
    },
    files: [],
    commands: [],
    strings: [],
  };
  let part: Part = "critical";
  let isTurn = false;
  for (const rawLine of texts.flatMap(proseLines)) {
    const heading = headingOf(rawLine);
    if (heading !== undefined) {
      part = partsOf(heading)[0] ?? "critical";
      isTurn = /original request/i.test(heading);
      continue;
    }
    if (/^\s*(?:[-*_]{3,}|<\/?[a-z-]+>)\s*$/.test(rawLine)) continue;
    const checked = /^\s*[-*]\s+\[([ xX])\]/.exec(rawLine)?.[1];
    const line = oneLine(
      wholeCodePoints(rawLine, LONGEST_LINE).replace(/^\s*(?:[-*•]\s+|\d{1,3}[.)]\s+)?(?:\[[ xX]\]\s+)?/, ""),
    );
    if (line === "" || /^\(none\)$/i.test(line)) continue;
    const checkedPart =
      checked === undefined || part !== "done" ? part : checked === " " ? "inProgress" : "done";
    if (checkedPart === "critical" && readOwnLine(line, summary)) continue;
    summary.lines[checkedPart].push(isTurn && checkedPart === "goal" ? asNewest(line) : line);
    inheritStrings(line, {}, summary);
  }
  return summary;
}

/** The request of a turn that was cut is the newest of its time. */
function asNewest(line: string): string {
  const isLabelled = Object.values(LABELS).some((label) => line.startsWith(label));
  return isLabelled ? line : `${LABELS.newestRequest}${line}`;
}

/** A line of strings that this summarizer wrote is written anew; its strings are taken over, in their order. */
function readOwnLine(line: string, summary: PreviousSummary): boolean {
  const file = /^`([^`]+)`(?: \((?:created, )?changed (\d+)×\))?(?:: (?:defines )?`.*)?$/.exec(line);
  if (file !== null) {
    const path = file[1]!;
    if (file[2] !== undefined) summary.files.push({ path, edits: Number(file[2]) });
    inheritStrings(path, {}, summary);
    for (const [, label, names] of line.slice(path.length + 2).matchAll(/(defines )?`([^`]*)`/g)) {
      inheritStrings(names!, { home: path, defined: label !== undefined }, summary);
    }
    return true;
  }
  if (line.startsWith(LABELS.commands)) {
    summary.commands.push(...[...line.matchAll(/`([^`]+)`/g)].map((match) => match[1]!));
    return true;
  }
  const isList = [LABELS.otherNames, LABELS.otherPaths, LABELS.values, LABELS.links].some((label) =>
    line.startsWith(label),
  );
  if (isList) inheritStrings(line.slice(line.indexOf("`")), {}, summary);
  return isList || line.startsWith(LABELS.olderFailures);
}

function inheritStrings(
  text: string,
  { home, defined = false }: { home?: string; defined?: boolean },
  summary: PreviousSummary,
): void {
  const found: { text: string; kind: StringKind }[] = [];
  eachExactString(text, (string) => found.push(string));
  for (const [index, string] of found.entries()) {
    summary.strings.push({ ...string, home, defined, rank: index / found.length });
  }
}
