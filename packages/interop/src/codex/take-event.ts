import type { Entry } from "@espalier/session-tree";
import { entryOf } from "../import-entry.ts";
import { KEPT_EVENTS, reasonToLeaveOutEvent } from "./event-lines.ts";
import type { LogicalLine } from "./logical-line.ts";
import { takeSettings } from "./take-settings.ts";
import type { ThreadHistory } from "./thread-history.ts";

/** What the user interface was told. Most of it stands in other lines; what does not is taken. */
export function* takeEvent(history: ThreadHistory, line: LogicalLine): Generator<Entry, void> {
  const { payload } = line;
  const type = String(payload["type"]);
  if (type === "thread_rolled_back") yield* rollBack(history, payload["num_turns"]);
  else if (type === "token_count") {
    const billed = history.usage.readCount(payload);
    if (billed) yield* history.bill(billed);
    else history.note("repeats", "The event `token_count` is left out where it tells nothing new.");
  } else if (type === "thread_name_updated" && typeof payload["thread_name"] === "string")
    yield history.trail.grow(
      { type: "session_info", name: payload["thread_name"] },
      history.id,
      history.time,
    );
  else if (type === "thread_settings_applied") yield* takeSettings(history, line);
  else if (KEPT_EVENTS.has(type)) yield* history.state(type, payload);
  else {
    if (type === "task_started") history.trail.endRun();
    history.note("repeats", reasonToLeaveOutEvent(type));
  }
}

/** The leaf goes back; what was taken back stays as a branch. */
function* rollBack(history: ThreadHistory, turns: unknown): Generator<Entry, void> {
  yield* history.flush();
  yield* history.settle();
  const { trail, id, time } = history;
  const wanted = typeof turns === "number" && turns > 0 ? Math.floor(turns) : 0;
  if (trail.rollBack(wanted) < wanted)
    history.note(
      "rollback",
      "More turns were taken back than there are; the conversation goes on at the earliest.",
    );
  yield entryOf({ type: "leaf", targetId: trail.leafId }, id, trail.leafId, time.iso);
}
