import { type ContextMessage, toolCalls } from "@espalier/session-tree";

/**
 * For each place in a list, how many calls before it have a result at it or behind it: where that is none, nothing is
 * parted by a cut before that place. A call without results opens nothing, nor does a result without a call.
 *
 * @param said what each place says
 */
export function openPairs(said: readonly (readonly ContextMessage[])[]): Int32Array {
  const callAt = new Map<string, number>();
  // First by how many more, or fewer, there are than at the place before.
  const open = new Int32Array(said.length + 1);
  for (const [at, messages] of said.entries()) {
    for (const message of messages) {
      for (const { id } of toolCalls(message)) callAt.set(id, at);
      const call = message.role === "toolResult" ? callAt.get(message.toolCallId) : undefined;
      if (call === undefined) continue;
      open[call + 1]!++;
      open[at + 1]!--;
    }
  }
  for (let at = 1; at < open.length; at++) open[at]! += open[at - 1]!;
  return open.subarray(0, said.length);
}
