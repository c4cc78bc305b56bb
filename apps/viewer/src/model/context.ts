import {
  type ContextMessage,
  contentBlocks,
  contextOfPath,
  estimateTokens,
  extendContext,
  fieldText,
  IMAGE_TOKENS,
  movingRow,
  pathRows,
  pathWindowAt,
  type SessionContext,
  type Tree,
} from "@espalier/session-tree";
import { contextWindowOf } from "@espalier/summarizer";
import { continued } from "./long-work.ts";

/** One message that the model reads. */
export interface ContextPiece {
  /** Row of its entry. */
  row: number;
  tokens: number;
  message: ContextMessage;
}

/** Context of the model at an entry. */
export interface ContextView {
  /** Row of the entry; -1 before the first. */
  row: number;
  model: { provider: string; modelId: string } | null;
  /** Context window of the model in tokens; null if unknown. */
  window: number | null;
  thinkingLevel: string;
  /** All tokens, estimated as characters / 4. */
  total: number;
  /** Tokens by kind; see `TOKEN_KINDS`. */
  tokens: TokenCounts;
  pieces: ContextPiece[];
}

export function contextViewAt(tree: Tree, row: number): ContextView {
  const place = movingRow(tree, row);
  const context = contextAt(tree, place);
  const tokens = noTokens();
  const pieces = context.messages.map((message, at) => ({
    row: tree.row(context.sources[at]!),
    tokens: addTokens(tokens, message),
    message,
  }));
  const { model, thinkingLevel, tokens: total } = context;
  const known = contextWindowOf(model) ?? null;
  return { row: place, model, window: known, thinkingLevel, total, tokens, pieces };
}

/** Returns the context of the model at a row; -1 is before the first entry. */
export function contextAt(tree: Tree, row: number): SessionContext {
  const window = pathWindowAt(tree, row);
  return contextOfPath(window.entries, window.before);
}

/** The context after one entry of a path. */
export interface GrowthPoint {
  row: number;
  /** Position on the path, from 0. */
  at: number;
  /** Tokens by kind; see `TOKEN_KINDS`. */
  tokens: TokenCounts;
  /** True for the points directly before and after a compaction or an edit. */
  bite?: true;
}

/** Size of the context along a path, with the tokens that each compaction removed. */
export interface ContextGrowth {
  /** Number of entries on the path. */
  steps: number;
  /**
   * The first and the last point, the points before and after each compaction or edit, and at most 2,000 evenly spaced
   * points.
   */
  points: GrowthPoint[];
  /** Context window of the model at the end, in tokens; null if unknown. */
  window: number | null;
}

/** Maximum number of evenly spaced points; beyond it, every other point is removed. */
const EVEN_POINTS = 2_000;

/** One walk for each tree, which is continued when the session grows. */
const walks = new WeakMap<Tree, Promise<{ walk: GrowthWalk; growth: ContextGrowth }>>();

/** Returns the size of the context after each entry of the path that ends in a row. */
export async function growthTo(tree: Tree, row: number): Promise<ContextGrowth> {
  // Entries beside the conversation are not steps of the path.
  const path = pathRows(tree, row).filter((at) => tree.kindAt(at).movesLeaf);
  const { growth } = await continued("growth", walks, tree, async (earlier, breathe) => {
    const walk = earlier?.walk.isOn(path) ? earlier.walk : new GrowthWalk();
    while (walk.steps < path.length) {
      walk.step(tree, path[walk.steps]!);
      await breathe();
    }
    return { walk, growth: walk.growth() };
  });
  return growth;
}

class GrowthWalk {
  steps = 0;
  #row = -1;
  /** Number of entries between two kept points. */
  #stride = 1;
  /** Number of evenly spaced points. */
  #even = 0;
  #points: GrowthPoint[] = [];
  #context: SessionContext = contextOfPath([]);
  #tokens: TokenCounts = noTokens();

  /** Returns whether a path continues this one. */
  isOn(path: readonly number[]): boolean {
    return this.steps === 0 || path[this.steps - 1] === this.#row;
  }

  step(tree: Tree, row: number): void {
    const at = this.steps++;
    const said = this.#context.messages.length;
    const before = { row: this.#row, at: at - 1, tokens: this.#tokens, bite: true } as const;
    this.#row = row;
    const goesOn = extendContext(this.#context, tree.entryAt(row));
    if (!goesOn) this.#context = contextAt(tree, row);
    this.#tokens = goesOn ? [...this.#tokens] : noTokens();
    for (const message of this.#context.messages.slice(goesOn ? said : 0)) addTokens(this.#tokens, message);
    if (goesOn) {
      if (at % this.#stride !== 0) return;
      this.#points.push(this.#here(at, false));
      if (++this.#even > EVEN_POINTS) this.#thin();
      return;
    }
    const last = this.#points.at(-1);
    if (last?.at === at - 1) {
      this.#points.pop();
      if (!last.bite) this.#even--;
    }
    if (at > 0) this.#points.push(before);
    this.#points.push(this.#here(at, true));
  }

  growth(): ContextGrowth {
    const last = this.steps - 1;
    const isTold = last < 0 || this.#points.at(-1)?.at === last;
    return {
      window: contextWindowOf(this.#context.model) ?? null,
      steps: this.steps,
      points: isTold ? [...this.#points] : [...this.#points, this.#here(last, false)],
    };
  }

  #here(at: number, bite: boolean): GrowthPoint {
    return { row: this.#row, at, tokens: this.#tokens, ...(bite ? { bite } : {}) };
  }

  #thin(): void {
    this.#stride *= 2;
    this.#points = this.#points.filter(({ at, bite }) => bite || at % this.#stride === 0);
    this.#even = this.#points.filter(({ bite }) => !bite).length;
  }
}

/** Kinds of tokens in a context, in the order of the bars. */
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

/** Returns the tokens of messages by kind. */
export function tokensOf(messages: readonly ContextMessage[]): TokenCounts {
  const tokens = noTokens();
  for (const message of messages) addTokens(tokens, message);
  return tokens;
}

export const sumTokens = (counts: TokenCounts): number => counts.reduce((sum, count) => sum + count, 0);

/** Kind of a message's text, by role. */
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
 * Adds the estimated tokens of a message to the counts, divided by kind, and returns the estimate. The parts add up to
 * the estimate, because the rounding error is counted as the message's own text.
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
