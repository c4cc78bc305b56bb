import type { Entry, Settings } from "./entry.ts";
import { kindOf } from "./entry-kinds.ts";

/** What is in force where nothing was ever said (the thinking level as in Pi). */
export const NO_SETTINGS: Settings = { model: null, thinkingLevel: "off" };

/** The settings that an entry names; an entry that is not sound names none. */
export function settingsIn(entry: Entry): Partial<Settings> {
  const kind = kindOf(entry);
  if (!kind.settings || kind.problem?.(entry)) return {};
  return kind.settings(entry);
}

/** The settings in force behind an entry: what held before, changed by what the entry says. */
export function applySettings(before: Settings, entry: Entry): Settings {
  const change = settingsIn(entry);
  if (change.model === undefined && change.thinkingLevel === undefined) return before;
  return { ...before, ...change };
}

/** The settings in force at the end of a path. */
export function settingsAlong(path: Iterable<Entry>, before: Settings = NO_SETTINGS): Settings {
  let settings = before;
  for (const entry of path) settings = applySettings(settings, entry);
  return settings;
}
