import type { ImportReport } from "@espalier/interop/node";
import { formatCount, formatMany } from "../numbers.ts";
import { plainLine } from "../plain-text.ts";
import type { Shell } from "../shell.ts";

/** One line for one session. */
export function viewImport(report: ImportReport, { colours }: Pick<Shell, "colours">): string {
  const { status, source, sessionId, entries, added, branches, compactions } = report;
  const word = status.padEnd(9);
  if (status === "skipped") return `${colours.yellow(word)} ${colours.dim(plainLine(source))}`;
  const news = status === "updated" ? ` (${formatCount(added)} new)` : "";
  const size = `${formatMany(entries, "entry", "entries")}${news}, ${formatMany(branches, "branch", "branches")}`;
  const compacted = compactions > 0 ? `, ${formatMany(compactions, "compaction")}` : "";
  const told = status === "unchanged" ? colours.dim(word) : colours.green(word);
  return `${told} ${plainLine(sessionId ?? "")}  ${size}${compacted}  ${colours.dim(plainLine(source))}`;
}

/** The report of a whole import: the sums, and what could not be mapped as it stood, one line for each reason. */
export function* viewImports(
  reports: readonly ImportReport[],
  { colours }: Pick<Shell, "colours">,
): Generator<string> {
  yield "";
  for (const { kind, message, lines, files } of noticed(reports)) {
    const where = [...(lines > 0 ? [formatMany(lines, "line")] : []), formatMany(files, "file")].join(" in ");
    yield `${colours.yellow(kind.padEnd(18))} ${plainLine(message)} ${colours.dim(`(${where})`)}`;
  }
  // Several files can tell of one session: the last one has seen all of it.
  const sessions = [...new Map(reports.map((report) => [report.file ?? "", report])).values()];
  const sum = (from: readonly ImportReport[], count: (report: ImportReport) => number) =>
    from.reduce((total, report) => total + count(report), 0);
  const entries = formatMany(
    sum(sessions, ({ entries: all }) => all),
    "entry",
    "entries",
  );
  yield [
    formatMany(sessions.filter(({ file }) => file !== null).length, "session"),
    `${entries} (${formatCount(sum(reports, ({ added }) => added))} new)`,
    formatMany(
      sum(sessions, ({ branches }) => branches),
      "branch",
      "branches",
    ),
    formatMany(
      sum(sessions, ({ compactions }) => compactions),
      "compaction",
    ),
  ].join(", ");
}

interface Noticed {
  kind: string;
  message: string;
  lines: number;
  files: number;
}

/** The same thing in many files is told once. */
function noticed(reports: readonly ImportReport[]): Noticed[] {
  const byMessage = new Map<string, Noticed>();
  for (const { issues } of reports) {
    for (const { kind, message, count, lines } of issues) {
      const key = `${kind} ${message}`;
      const known = byMessage.get(key) ?? { kind, message, lines: 0, files: 0 };
      known.lines += lines === "" ? 0 : count;
      known.files++;
      byMessage.set(key, known);
    }
  }
  return [...byMessage.values()];
}
