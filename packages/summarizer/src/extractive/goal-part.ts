import type { Facts } from "./facts.ts";
import { LABELS } from "./labels.ts";
import type { Line } from "./lines.ts";
import { quote } from "./quote.ts";
import { gistOf } from "./user-words.ts";

/** Of the goal's room, for the first and the newest request each; what short ones leave goes to those between. */
const REQUEST_SHARE = 0.48;
const EARLIER_SHARE = 0.22;
/** What the labels of both take. */
const LABEL_ROOM = 50;
/** Where the first request is the only one. */
const ONLY_SHARE = 1;

/**
 * What the user asked for, in the user's words: the first request, the newest, and some between. The first request of
 * the first generation survives every update, since its line is taken over as it stands.
 */
export function goalLines(facts: Facts, room: number): Line[] {
  const { purpose, digest, previous } = facts;
  const { firstRequest, newestWords } = digest;
  const isUpdate = previous.lines.goal.length > 0;
  const newest = digest.newestRequest ?? (isUpdate ? undefined : newestWords);
  const isOnly = !isUpdate && (firstRequest === undefined || firstRequest === newest);
  const most = Math.floor((room - LABEL_ROOM) * (isOnly ? ONLY_SHARE : REQUEST_SHARE));
  const lines = isUpdate ? inheritedGoal(previous.lines.goal, newest !== undefined) : [];
  if (newest !== undefined) {
    // The beginning of a turn is about the newest request, whatever the messages before it asked for.
    const label = isOnly && purpose !== "turn-prefix" ? LABELS.firstRequest : LABELS.newestRequest;
    lines.push({ text: `${label}${quote(newest, most)}`, priority: 95, order: 900 });
  }
  if (newestWords !== undefined && newestWords !== newest) {
    lines.push({ text: `${LABELS.newestWords}${quote(newestWords, most)}`, priority: 50, order: 901 });
  }
  if (!isOnly && !isUpdate && firstRequest !== undefined) {
    lines.push({ text: `${LABELS.firstRequest}${quote(firstRequest, most)}`, priority: 100, order: -1 });
  }
  for (const { text, at, score } of digest.sayings.requests()) {
    if (text === newest || (text === firstRequest && !isUpdate)) continue;
    lines.push({
      text: `${LABELS.earlierRequest}${quote(gistOf(text), Math.floor(room * EARLIER_SHARE))}`,
      priority: 20 + score,
      order: 100 + at / digest.messageCount,
    });
  }
  return lines;
}

/** The earlier goal's lines; only the last newest request stays one, and only where there is none newer. */
function inheritedGoal(texts: readonly string[], hasNewer: boolean): Line[] {
  const newest = texts.findLastIndex((text) => text.startsWith(LABELS.newestRequest));
  return texts.flatMap((text, index) => {
    if (text.startsWith(LABELS.newestWords)) return [];
    if (text.startsWith(LABELS.newestRequest)) {
      if (index === newest && !hasNewer) return [{ text, priority: 95, order: 900 }];
      const earlier = `${LABELS.earlierRequest}${text.slice(LABELS.newestRequest.length)}`;
      return [{ text: earlier, priority: 21, order: 90 }];
    }
    const aged = index / 100;
    if (text.startsWith(LABELS.earlierRequest)) return [{ text, priority: 10 + aged, order: 10 + aged }];
    return [{ text, priority: 100 - index, order: index - 500 }];
  });
}

/** The words of the newest request that an earlier summary tells of, without label and quotation marks. */
export function inheritedRequest({ previous }: Facts): string | undefined {
  const { goal } = previous.lines;
  const line = goal.findLast((text) => text.startsWith(LABELS.newestRequest)) ?? goal.at(0);
  return line === undefined ? undefined : withoutLabel(line);
}

/** What stands between the quotation marks of a line of the goal. */
export function withoutLabel(line: string): string {
  const label = [LABELS.firstRequest, LABELS.earlierRequest, LABELS.newestRequest].find((start) =>
    line.startsWith(start),
  );
  return line.slice(label?.length ?? 0).replace(/^"(.*)"$/, "$1");
}
