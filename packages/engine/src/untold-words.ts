import { goalIn, latestUserMessageIn, userTexts } from "@espalier/compaction";
import { compaction, isMessage, type SessionTree } from "@espalier/session-tree";

/**
 * The user's first and newest words, where the end of the path that is at hand cannot tell them. A compaction of ours
 * carries them; only behind one that does not is the whole path read.
 */
export function untoldWords(core: SessionTree): { goal?: string; latestUserMessage?: string } {
  const { complete, entries } = core.window;
  if (complete) return {};
  const front = entries.findLast((entry) => compaction.is(entry));
  const summary = front && compaction.is(front) ? front.summary : "";
  const knowsGoal = goalIn(summary) !== undefined;
  const knowsLatest =
    entries.some((entry) => isMessage(entry, "user")) || latestUserMessageIn(summary) !== undefined;
  if (knowsGoal && knowsLatest) return {};
  const texts = userTexts(core.getBranch());
  const [goal, latestUserMessage] = [texts[0], texts.at(-1)];
  return {
    ...(knowsGoal || goal === undefined ? {} : { goal }),
    ...(knowsLatest || latestUserMessage === undefined ? {} : { latestUserMessage }),
  };
}
