import {
  type ContextMessage,
  contextOfPath,
  movingRow,
  pathWindowAt,
  type Tree,
} from "@espalier/session-tree";
import { contextWindowOf } from "@espalier/summarizer";
import { addTokens, noTokens, type TokenCounts } from "./token-kinds.ts";

/** One message that the model reads. */
export interface ContextPiece {
  /** The entry it comes from. */
  row: number;
  tokens: number;
  message: ContextMessage;
}

/** What the model reads at an entry. */
export interface ContextView {
  /** The entry; -1 before the first. */
  row: number;
  model: { provider: string; modelId: string } | null;
  /** The window of the model, in tokens; null where it is not known. */
  window: number | null;
  thinkingLevel: string;
  /** All tokens, characters / 4. */
  total: number;
  /** The same by kind; see `TOKEN_KINDS`. */
  tokens: TokenCounts;
  pieces: ContextPiece[];
}

export function contextViewAt(tree: Tree, row: number): ContextView {
  const place = movingRow(tree, row);
  const window = pathWindowAt(tree, place);
  const context = contextOfPath(window.entries, window.before);
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
