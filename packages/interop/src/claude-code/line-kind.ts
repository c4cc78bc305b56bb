/** What a line is, as a number in a column. */
export const LineKind = {
  aside: 0,
  user: 1,
  assistant: 2,
  system: 3,
  attachment: 4,
  progress: 5,
  unknown: 6,
  /** The same line stands above: nothing becomes of it. */
  repeated: 7,
} as const;

/** Whether a line of this kind stands in the tree. */
export const hasPlace = (kind: number): boolean => kind !== LineKind.aside && kind !== LineKind.repeated;

const PLACED: ReadonlyMap<string, number> = new Map([
  ["user", LineKind.user],
  ["assistant", LineKind.assistant],
  ["system", LineKind.system],
  ["attachment", LineKind.attachment],
  ["progress", LineKind.progress],
]);

/**
 * The kind of a line. Messages stand in the tree even without an id; of the types that nobody here knows, those with an
 * id do: something may follow them.
 */
export function kindOfLine(type: string, hasId: boolean): number {
  const placed = PLACED.get(type);
  if (placed === undefined) return hasId ? LineKind.unknown : LineKind.aside;
  return hasId || placed === LineKind.user || placed === LineKind.assistant ? placed : LineKind.aside;
}

/** Marks of a line. */
export const LineMark = {
  sidechain: 1,
  /** Not typed by the user. */
  synthetic: 2,
  summary: 4,
  boundary: 8,
  /** Another line follows it in the tree. */
  followed: 16,
  /** It has no id, or that of another line: its entry's id is made of both id and line number. */
  renamed: 32,
  /** It is a copy that names its original, whose id it gets. */
  claimed: 64,
  /** What it followed was lost: it follows the line before it. */
  bridged: 128,
} as const;
