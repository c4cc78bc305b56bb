// The one branch summary of the demo: what it tells, from which branch, and what writing it cost.
import { priced } from "./bill.mjs";
import { buildContext, collectFiles, renderFiles } from "./context.mjs";

/** The fields of a branch summary; `left` are the entries below the common ancestor, `prose` is what the model wrote. */
export function makeBranchSummary({ left, prose, modelId }) {
  const files = collectFiles(left);
  const chars = buildContext(left).reduce((sum, { message }) => sum + JSON.stringify(message).length, 0);
  const usage = priced(modelId, {
    input: Math.round((chars / 4) * 0.7) + 520,
    output: Math.round(prose.length / 3.7),
  });
  const summary = prose + renderFiles(files);
  return { fromId: left.at(-1).id, summary, details: files, usage, fromHook: false };
}
