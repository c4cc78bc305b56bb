import { DEFAULT_COMPACTION_SETTINGS, type Policy, type PolicySituation } from "@espalier/compaction";
import {
  type AssistantMessage,
  type ContextMessage,
  contextOfPath,
  type Entry,
  type ToolResultMessage,
  type UserMessage,
} from "@espalier/session-tree";

/** What people, models and tools say, in few words. */
export const user = (content: string): UserMessage => ({ role: "user", content, timestamp: 1 });

export const answer = (text: string): AssistantMessage => ({
  role: "assistant",
  content: [{ type: "text", text }],
  provider: "test",
  model: "test",
  stopReason: "stop",
  timestamp: 1,
});

export const calling = (...ids: string[]): AssistantMessage => ({
  ...answer(""),
  content: ids.map((id) => ({
    type: "toolCall" as const,
    id,
    name: "read",
    arguments: { path: `${id}.txt` },
  })),
  stopReason: "toolUse",
});

export const result = (toolCallId: string, text = "ok"): ToolResultMessage => ({
  role: "toolResult",
  toolCallId,
  toolName: "read",
  content: [{ type: "text", text }],
  isError: false,
  timestamp: 1,
});

/** `count` messages, the user and the model in turn. */
export const talk = (count: number): ContextMessage[] =>
  Array.from({ length: count }, (_, at) =>
    at % 2 === 0 ? user(`question ${at}: ${"why ".repeat(20)}`) : answer(`answer ${at}: ${"so ".repeat(20)}`),
  );

/** Messages as a path: entries `e0`, `e1`, …, a second apart. */
export const pathOf = (messages: readonly ContextMessage[]): Entry[] =>
  messages.map(
    (message, at) =>
      ({
        type: "message",
        id: `e${at}`,
        parentId: at === 0 ? null : `e${at - 1}`,
        timestamp: new Date(Date.UTC(2026, 0, 1, 0, 0, at)).toISOString(),
        message,
      }) as Entry,
  );

/** What a policy judges by at the end of a path, at one moment. */
export function situationAt(
  path: readonly Entry[],
  { now = Date.UTC(2026, 0, 1), ...rest }: Partial<PolicySituation> = {},
): PolicySituation {
  return {
    context: contextOfPath(path),
    path,
    settings: DEFAULT_COMPACTION_SETTINGS,
    overheadTokens: 0,
    startedAt: "2026-01-01T00:00:00.000Z",
    ...rest,
    now,
  };
}

/** The plan of a policy that there has to be. */
export function planned(policy: Policy, path: readonly Entry[], given: Partial<PolicySituation> = {}) {
  const plan = policy.plan(situationAt(path, given), {});
  if (!plan.eligible) throw new Error(plan.reason);
  return plan;
}
