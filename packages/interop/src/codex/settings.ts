import { isRecord } from "@espalier/session-tree";
import type { EntryBody } from "../import/entry.ts";

type Fields = Record<string, unknown>;

/** What is in force while a thread is read. */
export interface CodexSettings {
  provider: string;
  model: string | undefined;
  thinkingLevel: string;
}

export const NO_CODEX_SETTINGS: CodexSettings = {
  provider: "openai",
  model: undefined,
  thinkingLevel: "off",
};

/** What a line changes about the settings: those of a turn, those that were applied, or a header. */
export function readSettings(type: string, payload: Fields, before: CodexSettings): CodexSettings {
  if (type === "session_meta")
    return { ...before, provider: textOf(payload["model_provider"]) ?? before.provider };
  const fields = isRecord(payload["thread_settings"]) ? payload["thread_settings"] : payload;
  const mode = isRecord(fields["collaboration_mode"]) ? fields["collaboration_mode"] : {};
  const inMode = isRecord(mode["settings"]) ? mode["settings"] : {};
  const effort = [fields["effort"], fields["reasoning_effort"], inMode["reasoning_effort"]].map(textOf);
  return {
    provider: textOf(fields["model_provider_id"]) ?? before.provider,
    model: textOf(fields["model"]) ?? before.model,
    thinkingLevel: effort.find((level) => level !== undefined) ?? before.thinkingLevel,
  };
}

/** The entries that say what changed, each with a name. */
export function settingsBodies(
  before: CodexSettings,
  after: CodexSettings,
): [name: string, body: EntryBody][] {
  const { provider, model, thinkingLevel } = after;
  const bodies: [string, EntryBody][] = [];
  if (model !== undefined && (model !== before.model || provider !== before.provider))
    bodies.push(["model", { type: "model_change", provider, modelId: model }]);
  if (thinkingLevel !== before.thinkingLevel)
    bodies.push(["thinking", { type: "thinking_level_change", thinkingLevel }]);
  return bodies;
}

/** Fields of a turn's settings that name the turn and say nothing about it. */
const NAMES_OF_TURN = new Set(["turn_id", "root_turn_id", "parent_turn_id", "trace_id"]);

/** The settings of a turn, to be compared with those of the turn before. */
export function turnSettings(payload: Fields): Fields {
  return Object.fromEntries(Object.entries(payload).filter(([field]) => !NAMES_OF_TURN.has(field)));
}

const textOf = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : undefined;
