import type { Session } from "@espalier/engine";
import { branchSummary, compaction, type Entry, isMessage, rowsOf } from "@espalier/session-tree";
import type { Colours } from "../shell.ts";
import { treeLines } from "../views/view-tree.ts";

/** Lines below which a drawing has room for what users said. */
const SPARSE = 16;

/** Lines of a drawing at the most. */
const SCREEN = 40;

/**
 * A session's tree on about one screen: labels, summaries, partings and ends, and all else folded; where that leaves
 * next to nothing, as in a session without branches, every so many words of the user too.
 */
export function screenfulTree(session: Session, colours: Colours, width: number): string[] {
  const draw = (standsOut: (entry: Entry) => boolean) => [
    ...treeLines(session, colours, { fold: 1, standsOut, width }),
  ];
  let lines = draw(isSummary);
  if (lines.length < SPARSE) {
    const said = new Set(sampled([...userIds(session)], SPARSE - lines.length));
    lines = draw((entry) => isSummary(entry) || said.has(entry.id));
  }
  const left = lines.length - SCREEN;
  return left > 0 ? [...lines.slice(0, SCREEN), `… ${left} more lines`] : lines;
}

const isSummary = (entry: Entry): boolean => compaction.is(entry) || branchSummary.is(entry);

function* userIds({ tree }: Session): Generator<string> {
  for (const [, entry] of rowsOf(tree, "message")) if (isMessage(entry, "user")) yield entry.id;
}

/** At most `count` of them, evenly spread. */
function sampled(ids: readonly string[], count: number): string[] {
  const step = Math.max(1, Math.ceil(ids.length / count));
  return ids.filter((_, at) => at % step === 0);
}
