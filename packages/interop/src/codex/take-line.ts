import type { Entry } from "@espalier/session-tree";
import { readSettings } from "./codex-settings.ts";
import type { LogicalLine } from "./logical-line.ts";
import { takeCompacted } from "./take-compacted.ts";
import { takeEvent } from "./take-event.ts";
import { takeItem } from "./take-item.ts";
import { takeTurn } from "./take-settings.ts";
import type { ThreadHistory } from "./thread-history.ts";

type Take = (
  history: ThreadHistory,
  line: LogicalLine,
  next: LogicalLine | undefined,
) => Generator<Entry, void>;

const TAKE: ReadonlyMap<string, Take> = new Map<string, Take>([
  ["response_item", takeItem],
  ["event_msg", takeEvent],
  ["compacted", takeCompacted],
  ["turn_context", takeTurn],
  ["session_meta", takeHeader],
  ["token_usage_record", takeRecord],
]);

/** Types of lines that are kept as state, and are no surprise. */
const KNOWN_STATE: ReadonlySet<string> = new Set([
  "world_state",
  "retained_context",
  "inter_agent_communication",
  "inter_agent_communication_metadata",
  "dynamic_tools_updated",
  "realtime_item",
  "security_risk_score",
]);

/** The entries that a line becomes. */
export function* takeLine(
  history: ThreadHistory,
  line: LogicalLine,
  next: LogicalLine | undefined,
): Generator<Entry, void> {
  history.begin(line);
  const take = TAKE.get(line.type);
  if (take) {
    yield* take(history, line, next);
    return;
  }
  if (!KNOWN_STATE.has(line.type))
    history.note("unknown-type", "Lines of a type that is not known are kept as state.");
  yield* history.state(line.type, line.payload);
}

/** The header: where the thread was begun, and with which instructions. */
function* takeHeader(history: ThreadHistory, { type, payload }: LogicalLine): Generator<Entry, void> {
  history.settings = readSettings(type, payload, history.settings);
  yield* history.state("session_meta", payload);
}

function* takeRecord(history: ThreadHistory, { payload }: LogicalLine): Generator<Entry, void> {
  const billed = history.usage.readRecord(payload);
  if (billed) yield* history.bill(billed);
  else history.note("repeats", "A `token_usage_record` is left out where it counts nothing.");
}
