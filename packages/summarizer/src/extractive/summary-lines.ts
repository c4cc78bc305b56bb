/** What the engine writes after a summary's prose; it writes it anew each time. */
const APPENDED_TAGS = ["goal", "pinned", "latest-user-message", "read-files", "modified-files"];
/** A summary is far shorter; what is beyond is none. */
const LONGEST_SUMMARY = 200_000;
const MOST_LINES = 1_000;

/** The lines of a summary's prose, without the blocks that stand after it. */
export function proseLines(summary: string): string[] {
  const lines = summary.slice(0, LONGEST_SUMMARY).split("\n");
  const closings = new Map(APPENDED_TAGS.map((tag) => [`<${tag}>`, lines.lastIndexOf(`</${tag}>`)]));
  const prose: string[] = [];
  for (let index = 0; index < lines.length && prose.length < MOST_LINES; index++) {
    const closing = closings.get(lines[index]!.trim()) ?? -1;
    // The last closing tag ends the block: content is escaped and has none.
    if (closing > index) index = closing;
    else prose.push(lines[index]!);
  }
  return prose;
}

/** The words of a line that is a heading: `## Goal`, or `**Goal:**` alone on its line. */
export function headingOf(line: string): string | undefined {
  return /^\s{0,3}#{1,6}\s+(.*)$/.exec(line)?.[1] ?? /^\s*\*\*([^*]{1,60}?):?\*\*:?\s*$/.exec(line)?.[1];
}
