import type { CheckedTurn, Problems } from "./request-shape.ts";

/**
 * Every call is followed at once by its result: the next turn is the user's, begins with exactly the results of the calls
 * before it, in any order, and no other result. Ids are unique in the whole conversation.
 */
export function checkToolPairs(turns: readonly CheckedTurn[], problems: Problems): void {
  const used = new Set<string>();
  let open = new Set<string>();
  for (const turn of turns) {
    if (turn.role === "user") open = checkResults(turn, open, problems);
    else open = checkCalls(turn, used, problems);
  }
  missing(open, problems);
}

function checkCalls(turn: CheckedTurn, used: Set<string>, problems: Problems): Set<string> {
  const calls = new Set<string>();
  for (const { block, at } of turn.blocks) {
    if (block["type"] !== "tool_use") continue;
    const id = String(block["id"]);
    if (used.has(id)) problems.push(`${at}.id: tool_use ids must be unique`);
    used.add(id);
    calls.add(id);
  }
  const end = turn.blocks.at(-1);
  if (end && (end.block["type"] === "thinking" || end.block["type"] === "redacted_thinking")) {
    problems.push(`${end.at}: the final block in an assistant message cannot be thinking`);
  }
  return calls;
}

/** Returns the calls that still have no result, after saying so: nothing can answer them any more. */
function checkResults(turn: CheckedTurn, open: ReadonlySet<string>, problems: Problems): Set<string> {
  const waiting = new Set(open);
  const answered = new Set<string>();
  let others = 0;
  for (const { block, at } of turn.blocks) {
    if (block["type"] !== "tool_result") {
      others++;
      continue;
    }
    const id = String(block["tool_use_id"]);
    if (answered.has(id))
      problems.push(`${at}: each tool_use must have a single result, found more for ${id}`);
    else if (!waiting.delete(id))
      problems.push(`${at}: unexpected tool_use_id ${id} in tool_result: no such call just before`);
    else if (others > 0) problems.push(`${at}: tool_result blocks must come before other content`);
    answered.add(id);
  }
  missing(waiting, problems);
  return new Set();
}

function missing(open: ReadonlySet<string>, problems: Problems): void {
  for (const id of open)
    problems.push(`tool_use ${id} was found without a tool_result block immediately after`);
}
