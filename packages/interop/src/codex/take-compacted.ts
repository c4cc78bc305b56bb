import type { Entry } from "@espalier/session-tree";
import { compactionDetails, excerptSummary, keptTail, readCompacted } from "./compacted.ts";
import type { LogicalLine } from "./logical-line.ts";
import { takeItem } from "./take-item.ts";
import type { ThreadHistory } from "./thread-history.ts";

type Fields = Record<string, unknown>;

/**
 * A compaction. What it keeps is named by what it says, not by where it stands: when that is the end of what was said, it
 * is the kept tail; else the kept messages are said again behind the compaction, as its `replacement_history` has them.
 */
export function* takeCompacted(history: ThreadHistory, line: LogicalLine): Generator<Entry, void> {
  yield* history.flush();
  const { payload } = line;
  const { trail, id, settings } = history;
  const { summary, items, opaque } = readCompacted(payload);
  const kept =
    items ?? trail.users.map(({ text }): Fields => ({ type: "message", role: "user", content: text }));
  const firstKept = keptTail(kept, trail.said);
  const usage = history.takeBill(payload["compaction_response_id"]);
  if (summary === undefined) history.note("opaque-summary", OPAQUE_SUMMARY);
  const { provider, model, thinkingLevel } = settings;
  yield* history.write({
    type: "compaction",
    summary: summary ?? history.options.summaries?.get(id) ?? excerptSummary(payload, trail.users),
    firstKeptEntryId: firstKept ?? id,
    tokensBefore: history.contextTokens,
    details: {
      ...(model === undefined ? {} : { settings: { provider, modelId: model, thinkingLevel } }),
      codex: { provider, ...compactionDetails(payload, opaque) },
      ...(summary === undefined ? { opaqueSummary: true } : {}),
    },
    ...(usage ? { usage } : {}),
  });
  trail.forget(firstKept === undefined ? 0 : kept.length);
  if (firstKept !== undefined) return;
  for (const [at, item] of kept.entries()) {
    history.begin({ ...line, seed: `${line.seed}/kept/${at}` });
    yield* takeItem(history, { ...line, payload: item, metadata: {} }, undefined);
  }
  yield* history.flush();
  trail.endRun();
}

const OPAQUE_SUMMARY =
  "The summary of a compaction can only be read by its provider; it is kept for that one, and excerpts stand in its place.";
