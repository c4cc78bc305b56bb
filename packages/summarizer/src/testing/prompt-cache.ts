import { createHash } from "node:crypto";

/**
 * Simulates a provider's cache: finds the longest prefix of tools, system and messages that is byte for byte in an
 * earlier request and ended at a mark of that request. A prefix is found in the twenty blocks that end with a mark. A
 * cache is for one model; cached messages are not used when thinking or the choice of tools differ.
 */
export class PromptCache {
  readonly #prefixes = new Set<string>();

  /** Returns the tokens read and written for one request, and stores the request. */
  use(body: RequestBody, count: CountTokens): { read: number; written: number } {
    const places = placesOf(body);
    const marks = places.flatMap(({ isMarked }, at) => (isMarked ? [at] : []));
    const last = marks.at(-1);
    if (last === undefined) return { read: 0, written: 0 };
    const known = places.findLastIndex(
      ({ hash }, at) =>
        this.#prefixes.has(hash) && marks.some((mark) => at <= mark && mark - at < BLOCKS_LOOKED_BACK),
    );
    for (const mark of marks) this.#prefixes.add(places[mark]!.hash);
    const read = known < 0 ? 0 : count(places[known]!.prefix());
    return { read, written: Math.max(0, count(places[last]!.prefix()) - read) };
  }
}

/** Number of blocks, from a marked one backwards, in which the Messages API searches for a cached prefix. */
const BLOCKS_LOOKED_BACK = 20;

/** The body of a request to the Messages API. */
export type RequestBody = Readonly<Record<string, unknown>>;

/** Counts the tokens of a request. */
export type CountTokens = (body: RequestBody) => number;

/** Counts a quarter of the bytes of the parts that a model reads; marks do not count. */
export const quarterOfBytes: CountTokens = (body) =>
  Math.ceil(Buffer.byteLength(withoutMarks([body["system"], body["tools"], body["messages"]])) / 4);

/** End of a block, at which a prefix can end. */
interface Place {
  hash: string;
  isMarked: boolean;
  /** Returns the request up to this block. */
  prefix(): RequestBody;
}

/** Returns the ends of blocks of a request in the provider's reading order: tools, system, messages. */
function placesOf(body: RequestBody): Place[] {
  const { model, thinking, tool_choice, system } = body;
  const places: Place[] = [];
  const add = (value: unknown, prefix: () => RequestBody) => {
    const hash = createHash("sha256");
    hash.update(places.at(-1)?.hash ?? String(model)).update(withoutMarks(value));
    places.push({ hash: hash.digest("base64"), isMarked: isMarked(value), prefix });
  };
  const tools = listOf(body["tools"]);
  for (const [at, tool] of tools.entries()) add(tool, () => ({ tools: tools.slice(0, at + 1) }));
  if (Array.isArray(system))
    for (const [at, block] of system.entries())
      add(block, () => ({ tools, system: system.slice(0, at + 1) }));
  else if (system !== undefined) add(system, () => ({ tools, system }));
  const messages = listOf(body["messages"]);
  for (const [at, message] of messages.entries()) {
    const { content, ...rest } = message as { content?: unknown };
    const blocks = Array.isArray(content) ? content : [content];
    for (const [index, block] of blocks.entries()) {
      const begun = () => ({
        ...rest,
        content: Array.isArray(content) ? content.slice(0, index + 1) : content,
      });
      const settings = at === 0 && index === 0 ? [thinking, tool_choice] : [];
      add([rest, block, settings], () => ({ tools, system, messages: [...messages.slice(0, at), begun()] }));
    }
  }
  // A mark on the request itself counts as one on its last block.
  const last = places.at(-1);
  if (last && body["cache_control"] !== undefined) last.isMarked = true;
  return places;
}

const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

const isMarked = (value: unknown): boolean => JSON.stringify(value)?.includes('"cache_control"') === true;

const withoutMarks = (value: unknown): string =>
  JSON.stringify(value, (key, inner) => (key === "cache_control" ? undefined : inner)) ?? "";
