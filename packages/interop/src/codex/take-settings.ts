import type { Entry } from "@espalier/session-tree";
import { readSettings, settingsBodies, turnSettings } from "./codex-settings.ts";
import type { LogicalLine } from "./logical-line.ts";
import type { ThreadHistory } from "./thread-history.ts";

/** Settings that were applied: what changed becomes an entry. */
export function* takeSettings(
  history: ThreadHistory,
  { type, payload }: LogicalLine,
): Generator<Entry, void> {
  const before = history.settings;
  const after = readSettings(type, payload, before);
  const bodies = settingsBodies(before, after);
  // The answer that is being given belongs to the settings before.
  if (bodies.length > 0) yield* history.flush();
  history.settings = after;
  for (const [name, body] of bodies) yield* history.write(body, name);
  if (type !== "turn_context" && bodies.length === 0)
    history.note("repeats", "The event `thread_settings_applied` is left out where it changes nothing.");
}

/** The settings of a turn; beyond model and effort they are state, where they differ from those of the turn before. */
export function* takeTurn(history: ThreadHistory, line: LogicalLine): Generator<Entry, void> {
  const before = history.settings;
  yield* takeSettings(history, line);
  const settings = turnSettings(line.payload);
  const turn = JSON.stringify(settings);
  if (turn === history.lastTurn) {
    if (before === history.settings || settingsBodies(before, history.settings).length === 0)
      history.note("repeats", "A `turn_context` is left out where it repeats that of the turn before.");
    return;
  }
  history.lastTurn = turn;
  yield* history.state("turn_context", settings);
}
