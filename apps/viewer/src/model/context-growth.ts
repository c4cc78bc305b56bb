import {
  contextOfPath,
  extendContext,
  pathRows,
  pathWindowAt,
  type SessionContext,
  type Tree,
} from "@espalier/session-tree";
import { addTokens, noTokens, type TokenCounts } from "./token-kinds.ts";

/** The context after one entry of a path. */
export interface GrowthPoint {
  row: number;
  /** Position on the path, from 0. */
  at: number;
  /** Tokens by kind; see `TOKEN_KINDS`. */
  tokens: TokenCounts;
}

/** How the context grew along a path, and what each compaction took. */
export interface ContextGrowth {
  /** Entries on the path. */
  steps: number;
  /** At most about 1,200 points, the first, the last, and both sides of every bite among them. */
  points: GrowthPoint[];
}

/** Points that a chart can show. */
const POINTS = 1_200;

/** What the model would have read after each entry of the path that ends in a row. */
export function growthTo(tree: Tree, row: number): ContextGrowth {
  const path = pathRows(tree, row);
  const stride = Math.ceil(path.length / POINTS);
  const points: GrowthPoint[] = [];
  let context: SessionContext = contextOfPath([]);
  let tokens = noTokens();
  for (const [at, step] of path.entries()) {
    const said = context.messages.length;
    const before = tokens;
    const extends_ = extendContext(context, tree.entryAt(step));
    if (extends_) {
      tokens = [...tokens];
      for (const message of context.messages.slice(said)) addTokens(tokens, message);
    } else {
      context = contextAt(tree, step);
      tokens = noTokens();
      for (const message of context.messages) addTokens(tokens, message);
      if (at > 0 && points.at(-1)?.at !== at - 1)
        points.push({ row: path[at - 1]!, at: at - 1, tokens: before });
    }
    if (!extends_ || at % stride === 0 || at === path.length - 1) points.push({ row: step, at, tokens });
  }
  return { steps: path.length, points };
}

function contextAt(tree: Tree, row: number): SessionContext {
  const window = pathWindowAt(tree, row);
  return contextOfPath(window.entries, window.before);
}
