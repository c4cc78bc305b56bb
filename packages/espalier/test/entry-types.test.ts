// Types alone: that this file compiles is the test.
import { type BaseEntry, defineEntry, type Entry, type NewEntry } from "@espalier/session-tree";
import { expect, expectTypeOf, test } from "vitest";

/** Narrows by the type alone, without a cast or a guard, for every kind of the format. */
function gist(entry: Entry): string | number | boolean | null | undefined {
  switch (entry.type) {
    case "message":
      return entry.message.role === "assistant" ? entry.message.model : entry.message.role;
    case "compaction":
      return entry.summary + entry.firstKeptEntryId;
    case "branch_summary":
      return entry.summary + entry.fromId;
    case "custom_message":
    case "custom":
      return entry.customType;
    case "context_edit":
      return entry.replacement === null ? entry.targetId : typeof entry.replacement.content;
    case "model_change":
      return `${entry.provider}/${entry.modelId}`;
    case "thinking_level_change":
      return entry.thinkingLevel;
    case "label":
      return entry.label ?? entry.targetId;
    case "session_info":
      return entry.name;
    case "usage":
      return entry.usage.input;
    case "leaf":
      return entry.targetId;
    default:
      // Kinds that the format lacks, and lines that cannot be read any more.
      expectTypeOf(entry.type).toEqualTypeOf<`${string}.${string}` | "damaged">();
      return entry.type;
  }
}

interface Weather extends BaseEntry {
  type: "garden.weather";
  degrees: number;
}

test("an entry is narrowed by its type, and a custom kind is an entry", () => {
  const weather = defineEntry<Weather>("garden.weather", { movesLeaf: true });
  const place = { id: "w1", parentId: null, timestamp: "2026-01-05T09:00:00.000Z" };
  const entry: Entry = { ...place, ...weather.of({ degrees: 21 }) } as Weather;
  expect(gist(entry)).toBe("garden.weather");
  if (weather.is(entry)) expectTypeOf(entry.degrees).toEqualTypeOf<number>();
  expectTypeOf(weather.of({ degrees: 21 })).toExtend<NewEntry>();
  expect(gist({ ...place, type: "label", targetId: "u1", label: "here" })).toBe("here");
});
