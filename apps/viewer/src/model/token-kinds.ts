import {
  type ContextMessage,
  contentBlocks,
  estimateTokens,
  fieldText,
  IMAGE_TOKENS,
} from "@espalier/session-tree";

/** What tokens of a context are spent on, in the order in which bars show them. */
export const TOKEN_KINDS = [
  "summary",
  "system",
  "user",
  "answer",
  "thinking",
  "call",
  "result",
  "image",
] as const;

export type TokenKind = (typeof TOKEN_KINDS)[number];

/** Tokens of each kind, in the order of {@link TOKEN_KINDS}. */
export type TokenCounts = number[];

export const noTokens = (): TokenCounts => TOKEN_KINDS.map(() => 0);

/** The kind of what a message says as text. */
const OF_ROLES = new Map(
  Object.entries<TokenKind>({
    compactionSummary: "summary",
    branchSummary: "summary",
    system: "system",
    assistant: "answer",
    toolResult: "result",
    bashExecution: "result",
  }),
);

/**
 * Adds the estimate of one message, `estimateTokens`, to the counts, divided by kind; returns it. The parts add up to the
 * whole, since what is left over by rounding counts as the message's own text.
 */
export function addTokens(counts: TokenCounts, message: ContextMessage): number {
  const total = estimateTokens(message);
  let rest = total;
  const take = (kind: TokenKind, tokens: number) => {
    const taken = Math.min(tokens, rest);
    rest -= taken;
    counts[TOKEN_KINDS.indexOf(kind)]! += taken;
  };
  for (const block of contentBlocks(message as { content?: unknown })) {
    if (block.type === "image") take("image", IMAGE_TOKENS);
    else if (block.type === "thinking") take("thinking", Math.floor(fieldText(block.thinking).length / 4));
    else if (block.type === "toolCall") take("call", estimateTokens({ ...EMPTY, content: [block] }));
  }
  take(OF_ROLES.get(message.role) ?? "user", rest);
  return total;
}

const EMPTY = { role: "assistant", provider: "", model: "", stopReason: "stop", timestamp: 0 } as const;
