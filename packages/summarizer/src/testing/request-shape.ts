/** Sentences about what is wrong, in the order in which it was found. */
export type Problems = string[];

/** The API refuses fields that it does not know. */
export function unknownFields(
  value: Record<string, unknown>,
  known: ReadonlySet<string>,
  at: string,
  problems: Problems,
): void {
  for (const field of Object.keys(value)) {
    if (!known.has(field))
      problems.push(`${at === "" ? "" : `${at}.`}${field}: extra inputs are not permitted`);
  }
}

/** One turn: neighbouring messages of one role, which the API joins. */
export interface CheckedTurn {
  role: "user" | "assistant";
  blocks: { block: Record<string, unknown>; at: string }[];
}
