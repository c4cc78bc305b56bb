// The one compaction of the demo, cut by the rule of the engine's default policy.
import { priced } from "./bill.mjs";
import { buildContext, collectFiles, isSilent, renderFiles } from "./context.mjs";
import { estimateTokens, estimateTotal } from "./tokens.mjs";

/**
 * Index of the first kept entry of a path: from the newest message backwards until `keepRecentTokens` are together,
 * then forward to the nearest entry that is no tool result, then back over entries that say nothing to a model.
 */
function findCut(path, keepRecentTokens) {
  const context = buildContext(path);
  let index = context.length - 1;
  for (let tokens = 0; index >= 0; index--) {
    tokens += estimateTokens(context[index].message);
    if (tokens >= keepRecentTokens) break;
  }
  if (index < 0) throw new Error("There is nothing to compact.");
  while (context[index].message.role === "toolResult") index++;
  let first = path.indexOf(context[index].entry);
  while (first > 0 && isSilent(path[first - 1])) first--;
  return first;
}

/** The fields of a compaction entry; `prose` is what the model wrote. */
export function makeCompaction({ path, prose, keepRecentTokens, model, thinkingLevel, durationMs }) {
  const cut = findCut(path, keepRecentTokens);
  const [covered, kept] = [path.slice(0, cut), path.slice(cut)];
  const messages = (entries) => buildContext(entries).map(({ message }) => message);
  const files = collectFiles(covered);
  const goal = covered.find((entry) => entry.message?.role === "user").message.content;
  const summary = `${prose}\n\n<goal>\n${goal}\n</goal>${renderFiles(files)}`;
  const tokensBefore = estimateTotal(messages(path));
  const tokensAfter = estimateTokens({ role: "compactionSummary", summary }) + estimateTotal(messages(kept));
  const usage = priced(model.modelId, {
    input: Math.round(estimateTotal(messages(covered)) * 0.82) + 640,
    output: Math.round(prose.length / 3.7),
  });
  const range = (entries) => ({
    firstEntryId: entries[0].id,
    lastEntryId: entries.at(-1).id,
    entries: entries.length,
    messages: messages(entries).length,
  });
  const details = {
    reason: "manual",
    policy: "token-budget",
    keepRecentTokens,
    source: "model",
    model,
    settings: { ...model, thinkingLevel },
    covered: range(covered),
    kept: range(kept),
    tokensBefore,
    tokensAfter,
    usage,
    durationMs,
    ...files,
  };
  return { summary, firstKeptEntryId: path[cut].id, tokensBefore, details, usage, fromHook: false };
}
