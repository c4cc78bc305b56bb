import { DEFAULT_COMPACTION_SETTINGS, type Policy } from "@espalier/compaction";
import { messageCount, offload, pressure, slidingWindow } from "@espalier/compaction/policies";
import {
  anthropicFormat,
  buildRequest,
  type ContextMessage,
  compaction,
  contextEdit,
  memoryStore,
  message,
  SessionTree,
} from "@espalier/session-tree";
import { checkAnthropicRequest } from "@espalier/session-tree/testing";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { answer, calling, result, situationAt, user } from "./conversation.ts";

const policies: Policy[] = [
  slidingWindow({ contextSize: 9, tailKeepSize: 5 }),
  messageCount({ maxMessages: 6, keepLast: 4 }),
  offload({ preserveCount: 3 }),
  pressure({ maxContextTokens: 600 }),
];

/** Pieces of a conversation, the odd ones among them: calls without results, results without calls, late ones. */
const piece = fc.oneof(
  { weight: 3, arbitrary: fc.constant("prompt" as const) },
  { weight: 3, arbitrary: fc.constant("answer" as const) },
  {
    weight: 4,
    arbitrary: fc.record({ calls: fc.integer({ min: 1, max: 3 }), answered: fc.integer({ min: 0, max: 3 }) }),
  },
  { weight: 1, arbitrary: fc.constant("late" as const) },
  { weight: 1, arbitrary: fc.constant("orphan" as const) },
  { weight: 1, arbitrary: fc.constant("failed" as const) },
);
type Piece = typeof piece extends fc.Arbitrary<infer Value> ? Value : never;

const lorem = "lorem ipsum dolor sit amet ".repeat(8);

function said(pieces: readonly Piece[], round: number): ContextMessage[] {
  return pieces.flatMap((each, at): ContextMessage[] => {
    const id = `${round}-${at}`;
    if (each === "prompt") return [user(`${id} ${lorem}`)];
    if (each === "answer") return [answer(`${id} ${lorem}`)];
    if (each === "late") return [calling(id), user("wait"), result(id, lorem)];
    if (each === "orphan") return [result(`lost-${id}`, lorem)];
    if (each === "failed") return [{ ...answer(lorem), stopReason: "error" }];
    const ids = Array.from({ length: each.calls }, (_, n) => `${id}-${n}`);
    return [calling(...ids), ...ids.slice(0, each.answered).map((call) => result(call, lorem))];
  });
}

const header = {
  type: "session" as const,
  version: 3,
  id: "s",
  timestamp: "2026-01-01T00:00:00.000Z",
  cwd: "/",
};

describe.each(policies.map((policy) => [policy.name, policy] as const))("%s", (_, policy) => {
  test("gives each message to a summary exactly once, keeps pairs whole, and leaves a valid request", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(piece, { minLength: 3, maxLength: 14 }), { minLength: 1, maxLength: 3 }),
        async (rounds) => {
          const session = await SessionTree.open(await memoryStore().create(header));
          const summarized: string[] = [];
          for (const [round, pieces] of rounds.entries()) {
            await session.append(said(pieces, round).map((each) => message.of({ message: each as never })));
            const path = session.window.entries;
            const plan = policy.plan(situationAt(path, { settings: DEFAULT_COMPACTION_SETTINGS }), {});
            if (!plan.eligible) continue;
            summarized.push(...plan.historyIds, ...plan.turnPrefixIds);
            const id = `compaction-${round}`;
            const first = plan.firstKeptEntryId ?? id;
            await session.append([
              compaction.of({ id, summary: "short", firstKeptEntryId: first, tokensBefore: 1 }),
              ...plan.edits.map((edit) => contextEdit.of(edit)),
            ]);
            const request = buildRequest(session.context, { format: anthropicFormat });
            expect(checkAnthropicRequest({ model: "m", max_tokens: 1, ...request })).toEqual([]);
            expect(session.context.sources.filter((source) => source !== id)).toEqual(plan.keptIds);
          }
          const visible = session.context.sources.filter((source) => !source.startsWith("compaction-"));
          const all = session.getBranch().filter((entry) => message.is(entry));
          expect([...summarized, ...visible].sort()).toEqual(all.map(({ id }) => id).sort());
        },
      ),
      { numRuns: 40 },
    );
  });
});
