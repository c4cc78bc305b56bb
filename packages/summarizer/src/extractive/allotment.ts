import type { Part } from "./sections.ts";

/** The parts that are made of words; what is critical is made of strings and takes what they leave. */
export type WordPart = Exclude<Part, "critical">;

/** How the room for words is divided where all parts have more to say than fits. */
const WEIGHTS: Record<WordPart, number> = {
  goal: 9,
  constraints: 7,
  done: 11,
  inProgress: 5,
  blocked: 4,
  decisions: 5,
  nextSteps: 3,
};

/**
 * Of a summary's room, what words may take. Strings are found again almost in proportion to the room they get, while
 * words do their work in little more than one screen: in the longer summaries they get this share, in shorter ones
 * what that work takes, up to the larger share.
 */
const SHARE = 0.31;
const LARGEST_SHARE = 0.65;
const ENOUGH = 2_200;

/** The goal comes first: this much of it is told, in at most this share of the room, before the others get any. */
const GOAL_FIRST = 320;
const GOAL_SHARE = 0.6;

/** The room for words beside exact strings. */
export function roomForWords(room: number): number {
  return Math.floor(Math.max(room * SHARE, Math.min(room * LARGEST_SHARE, ENOUGH)));
}

/**
 * Divides `room` among parts by weight. A part that needs less than its share gets what it needs, and the others divide
 * what it leaves; the beginning of the goal comes before all.
 */
export function allot(needs: ReadonlyMap<WordPart, number>, room: number): Map<WordPart, number> {
  const first = Math.min(needs.get("goal") ?? 0, GOAL_FIRST, Math.floor(room * GOAL_SHARE));
  const rooms = new Map<WordPart, number>([["goal", first]]);
  const need = (part: WordPart) => needs.get(part)! - (rooms.get(part) ?? 0);
  let waiting = [...needs.keys()];
  let left = room - first;
  while (waiting.length > 0) {
    const unit = left / waiting.reduce((sum, part) => sum + WEIGHTS[part], 0);
    const content = waiting.filter((part) => need(part) <= unit * WEIGHTS[part]);
    for (const part of content.length > 0 ? content : waiting) {
      const given = content.length > 0 ? need(part) : Math.floor(unit * WEIGHTS[part]);
      rooms.set(part, (rooms.get(part) ?? 0) + given);
      left -= given;
    }
    waiting = content.length > 0 ? waiting.filter((part) => !content.includes(part)) : [];
  }
  return rooms;
}
