import { type ContextMessage, isFailedAnswer, type ToolResultMessage, toolCalls } from "../message.ts";

/** Which result belongs to which call. */
export interface ToolPairs {
  /** For the index of each answer that counts and has calls: their results, in the order of the calls. */
  results: Map<number, (ToolResultMessage | undefined)[]>;
  /**
   * For each message, 1 when a result that was recorded after it belongs to a call before it: pulled up to its call,
   * that result changes what this message follows.
   */
  overtaken: Uint8Array;
}

interface OpenCall {
  answer: number;
  /** Where the result goes; none when the answer failed and is out with the results of its calls. */
  slots: (ToolResultMessage | undefined)[] | undefined;
  position: number;
}

/**
 * Matches each result with the nearest call before it that has its id and no result yet; within one answer the first.
 * Results that find no call, and results of failed answers, belong to nobody.
 */
export function pairTools(messages: readonly ContextMessage[]): ToolPairs {
  const open = new Map<string, OpenCall[]>();
  const results = new Map<number, (ToolResultMessage | undefined)[]>();
  const changes = new Int32Array(messages.length + 1);

  for (let index = 0; index < messages.length; index++) {
    const message = messages[index];
    if (message?.role === "assistant") {
      const calls = toolCalls(message);
      if (calls.length === 0) continue;
      const slots = isFailedAnswer(message) ? undefined : new Array<undefined>(calls.length).fill(undefined);
      if (slots) results.set(index, slots);
      for (let position = calls.length - 1; position >= 0; position--) {
        pushTo(open, idOf(calls[position]?.id), { answer: index, slots, position });
      }
    } else if (message?.role === "toolResult") {
      const call = open.get(idOf(message.toolCallId))?.pop();
      if (!call?.slots) continue;
      call.slots[call.position] = message;
      changes[call.answer + 1]! += 1;
      changes[index]! -= 1;
    }
  }
  return { results, overtaken: covered(changes) };
}

/** Marks what lies in at least one of the ranges, given by +1 where each begins and -1 where it has ended. */
function covered(changes: Int32Array): Uint8Array {
  const marks = new Uint8Array(changes.length - 1);
  let depth = 0;
  for (let index = 0; index < marks.length; index++) {
    depth += changes[index]!;
    marks[index] = depth > 0 ? 1 : 0;
  }
  return marks;
}

/** Files where ids are missing still pair: what has none belongs to what has none. */
const idOf = (id: unknown): string => (typeof id === "string" ? id : "");

function pushTo(lists: Map<string, OpenCall[]>, key: string, call: OpenCall): void {
  const list = lists.get(key);
  if (list) list.push(call);
  else lists.set(key, [call]);
}
