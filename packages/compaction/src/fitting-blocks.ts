import { blockLimit, type SummaryBlocks } from "./summary-blocks.ts";

/** Below this, in tokens, a block says nothing but that something was left out. */
const SMALLEST_LIMIT = 16;

/**
 * The blocks, with a limit for each where all together would not fit.
 *
 * @param sizeOf the size of all together, in the unit of `room`
 */
export function fittingBlocks(
  blocks: SummaryBlocks,
  contextWindow: number,
  room: number,
  sizeOf: (blocks: SummaryBlocks) => number,
): SummaryBlocks {
  const most = Math.max(0, room);
  let fitting = blocks;
  for (let limitTokens = blockLimit(contextWindow); limitTokens > SMALLEST_LIMIT; ) {
    const size = sizeOf(fitting);
    if (size <= most) break;
    limitTokens = Math.max(SMALLEST_LIMIT, Math.floor(limitTokens * Math.min(0.8, most / size)));
    fitting = { ...blocks, limitTokens };
  }
  return fitting;
}
