/**
 * - `one`: the first stands, a second is a conflict;
 * - `join`: strings, one after the other with a blank line between;
 * - `any`: true if one of them is true.
 */
export type MergeRule = "one" | "join" | "any";

/** An answer that was validated, and whose it is. */
export interface OwnedAnswer {
  readonly owner: string;
  readonly answer: Readonly<Record<string, unknown>>;
}

/** Two handlers answered a field that has room for one answer. */
interface Conflict {
  readonly field: string;
  readonly standing: string;
  readonly refused: string;
}

export interface MergedAnswer {
  readonly answer: Readonly<Record<string, unknown>>;
  /** Per field of the answer, whose words it holds, in order. */
  readonly owners: Readonly<Record<string, readonly string[]>>;
  readonly conflicts: readonly Conflict[];
}

/** Merges answers by top-level field. Pure; `answers` are in the order in which their handlers were asked. */
export function mergeAnswers(
  rules: Readonly<Record<string, MergeRule>>,
  answers: readonly OwnedAnswer[],
): MergedAnswer {
  const answer: Record<string, unknown> = {};
  const owners: Record<string, readonly string[]> = {};
  const conflicts: Conflict[] = [];
  for (const [field, rule] of Object.entries(rules)) {
    const given = answers.filter((one) => Object.hasOwn(one.answer, field));
    const first = given[0];
    if (!first) continue;
    const values = given.map((one) => one.answer[field]);
    if (rule === "one") {
      answer[field] = values[0];
      owners[field] = [first.owner];
      for (const { owner } of given.slice(1))
        conflicts.push({ field, standing: first.owner, refused: owner });
    } else {
      answer[field] = rule === "join" ? values.join("\n\n") : values.includes(true);
      owners[field] = given.map((one) => one.owner);
    }
  }
  return { answer, owners, conflicts };
}
