const LONGEST_HEADING = 120;

/**
 * The sections among `wanted` that a text has no heading for. A heading is a line of its own: `## Goal`, at any level,
 * in any case, with or without a number, a colon, or emphasis (`**Goal:**`).
 */
export function missingSections(text: string, wanted: readonly string[]): string[] {
  const lines = text.split(/\r?\n/).filter((line) => line.length <= LONGEST_HEADING);
  const found = new Set(lines.map(headingOf));
  return wanted.filter((section) => !found.has(normalize(section)));
}

/** The words of a line without what marks it as a heading. */
function headingOf(line: string): string {
  return normalize(
    line
      .replace(/^[\s>]*(?:#{1,6}\s*)?/, "")
      .replace(/^(?:\d+[.)]\s*)?[*_]{0,3}(?:\d+[.)]\s*)?/, "")
      .replace(/[\s#]*$/, "")
      .replace(/[:*_\s]*$/, ""),
  );
}

const normalize = (heading: string) =>
  heading
    .toLowerCase()
    .replace(/\band\b/g, "&")
    .replace(/[^\p{L}\p{N}&]+/gu, " ")
    .trim();
