import fc from "fast-check";

/** How an entry is made out of what was drawn: references are resolved once all ids are known. */
interface Draw {
  type: string;
  /** Picks the parent: the entry before, most of the time. */
  parent: number | "before" | "none" | "itself" | "later" | "nobody";
  /** Picks whatever else the entry refers to. */
  target: number | "itself" | "nobody";
  /** Takes the id of an entry before instead of one of its own. */
  borrowedId: number | undefined;
  says: unknown;
  /** The order of keys: as writers write it, what it says first, or the id last. */
  order: "usual" | "body first" | "id last";
  spaced: boolean;
}

const TYPES = [
  "user",
  "assistant",
  "toolResult",
  "compaction",
  "branch_summary",
  "custom_message",
  "context_edit",
  "model_change",
  "thinking_level_change",
  "custom",
  "label",
  "session_info",
  "usage",
  "leaf",
  "unheard_of",
] as const;

const texts = fc.constantFrom(
  "",
  "plain",
  "ü😀\u2028",
  "\ud83d",
  'a "quote" \\ and {"type":"message","id":"e1","parentId":null}',
  '"parentId":',
  "x".repeat(300),
  "}]}",
);

/** Values that a field may hold in a file that nobody checked. */
const odd = fc.constantFrom<unknown>(
  null,
  5,
  "",
  [],
  {},
  { content: 3 },
  [null],
  [{ type: "text" }],
  { role: 7 },
  true,
);

const draw: fc.Arbitrary<Draw> = fc.record({
  type: fc.constantFrom(...TYPES),
  parent: fc.oneof(
    { weight: 12, arbitrary: fc.constant<Draw["parent"]>("before") },
    { weight: 5, arbitrary: fc.nat({ max: 40 }) },
    { weight: 1, arbitrary: fc.constant<Draw["parent"]>("none") },
    { weight: 1, arbitrary: fc.constantFrom<Draw["parent"]>("itself", "later", "nobody") },
  ),
  target: fc.oneof(
    { weight: 4, arbitrary: fc.nat({ max: 40 }) },
    fc.constantFrom<Draw["target"]>("itself", "nobody"),
  ),
  borrowedId: fc.option(fc.nat({ max: 40 }), { nil: undefined, freq: 9 }),
  says: fc.oneof({ weight: 4, arbitrary: texts }, odd),
  order: fc.oneof(
    { weight: 6, arbitrary: fc.constant<Draw["order"]>("usual") },
    fc.constantFrom<Draw["order"]>("body first", "id last"),
  ),
  spaced: fc.oneof({ weight: 6, arbitrary: fc.constant(false) }, fc.constant(true)),
});

const idOf = (at: number) => `e${at}`;

/** The lines of drawn entries. */
function linesOf(draws: readonly Draw[]): string[] {
  const ids: string[] = [];
  return draws.map((drawn, at) => {
    const earlier = (pick: number) => ids[pick % Math.max(1, ids.length)] ?? "e0";
    const id = drawn.borrowedId === undefined || at === 0 ? idOf(at) : earlier(drawn.borrowedId);
    const parents = {
      before: ids.at(-1) ?? null,
      none: null,
      itself: id,
      later: idOf(at + 2),
      nobody: "nobody",
    };
    const parentId =
      typeof drawn.parent === "number"
        ? ids.length > 0
          ? earlier(drawn.parent)
          : null
        : parents[drawn.parent];
    const targets = { itself: id, nobody: "nobody" };
    const targetId = typeof drawn.target === "number" ? earlier(drawn.target) : targets[drawn.target];
    ids.push(id);
    const timestamp = new Date(Date.UTC(2026, 0, 1) + at * 1_000).toISOString();
    return written(drawn, { id, parentId, timestamp, targetId });
  });
}

function written(
  drawn: Draw,
  place: { id: string; parentId: string | null; timestamp: string; targetId: string },
): string {
  const { id, timestamp, targetId } = place;
  const { type, ...body } = bodyOf(drawn.type, targetId, drawn.says, id);
  const parentId = type === "leaf" ? targetId : place.parentId;
  const entry =
    drawn.order === "usual"
      ? { type, id, parentId, timestamp, ...body }
      : drawn.order === "body first"
        ? { ...body, timestamp, parentId, type, id }
        : { type, parentId, ...body, timestamp, id };
  return drawn.spaced
    ? ` ${JSON.stringify(entry, null, 1).replaceAll(/\n */g, " ")}\t`
    : JSON.stringify(entry);
}

function bodyOf(
  type: string,
  targetId: string,
  says: unknown,
  id: string,
): { type: string; [field: string]: unknown } {
  const blocks = typeof says === "string" ? [{ type: "text", text: says }] : says;
  const answer = {
    api: "x",
    provider: "anthropic",
    model: `model-${targetId}`,
    stopReason: "stop",
    timestamp: 2,
  };
  switch (type) {
    case "user":
      return { type: "message", message: { role: "user", content: says, timestamp: 1 } };
    case "assistant":
      return {
        type: "message",
        message: {
          role: "assistant",
          content: [
            ...(Array.isArray(blocks) ? blocks : []),
            { type: "toolCall", id, name: "read", arguments: { says } },
          ],
          ...answer,
        },
      };
    case "toolResult":
      return {
        type: "message",
        message: {
          role: "toolResult",
          toolCallId: targetId,
          toolName: "read",
          content: blocks,
          isError: false,
          timestamp: 3,
        },
      };
    case "compaction":
      return { type, summary: says, firstKeptEntryId: targetId, tokensBefore: 9, details: says };
    case "branch_summary":
      return { type, summary: says, fromId: targetId };
    case "custom_message":
      return { type, customType: "t", content: says, display: true };
    case "context_edit":
      return {
        type,
        targetId,
        replacement: says === "" ? null : typeof says === "string" ? { content: says } : says,
      };
    case "model_change":
      return { type, provider: says, modelId: "m" };
    case "thinking_level_change":
      return { type, thinkingLevel: says };
    case "custom":
      return { type, customType: "t", data: says };
    case "label":
      return { type, targetId, ...(says === "" ? {} : { label: says }) };
    case "session_info":
      return { type, name: says };
    case "usage":
      return { type, kind: "t", provider: "p", model: "m", usage: says };
    case "leaf":
      return { type, targetId };
    default:
      return { type, says };
  }
}

export const HEADER = JSON.stringify({
  type: "session",
  version: 3,
  id: "s",
  timestamp: "2026-01-01T00:00:00.000Z",
  cwd: "/garden",
});

/** Lines of a log with orphans, loops, ids that come twice, references to nobody and fields of any type. */
export const unsoundLines = fc
  .array(draw, { maxLength: 30, size: "max" })
  .map((draws) => [HEADER, ...linesOf(draws)]);
