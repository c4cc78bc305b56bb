/**
 * The rules of reading a log, written down once more and slowly: every line is decoded and parsed, nothing is skipped.
 * Written from the tables of the format, not from the code that it is held against.
 */
export interface NaiveRow {
  id: string;
  type: string;
  parentId: string | null;
  /** Position of the parent; -1 for a root, -2 for an orphan. */
  parent: number;
  /** What the line says; undefined when only its beginning can be read. */
  entry: Record<string, unknown> | undefined;
  offset: number;
  content: string;
}

export interface NaiveLog {
  header: Record<string, unknown> | undefined;
  rows: NaiveRow[];
  /** Position of the entry that the last usable line holds, or repeats; -1 for none. */
  lastRow: number;
  issues: { kind: string; line: number; offset: number }[];
}

type Json = Record<string, unknown>;

export function readNaively(bytes: Uint8Array): NaiveLog {
  const log: NaiveLog = { header: undefined, rows: [], lastRow: -1, issues: [] };
  let usable = 0;
  let line = 0;
  for (let offset = 0; offset < bytes.length; ) {
    const end = bytes.indexOf(10, offset) < 0 ? bytes.length : bytes.indexOf(10, offset);
    let content = Buffer.from(bytes.subarray(offset, end)).toString("latin1");
    if (offset === 0 && content.startsWith("\xef\xbb\xbf")) content = content.slice(3);
    if (content.endsWith("\r")) content = content.slice(0, -1);
    line++;
    usable += takeLine(log, content, offset, line, end < bytes.length, usable === 0) ? 1 : 0;
    offset = end + 1;
  }
  return log;
}

function takeLine(
  log: NaiveLog,
  content: string,
  offset: number,
  line: number,
  terminated: boolean,
  isFirst: boolean,
): boolean {
  const parts = partsOf(content);
  const isAlone = parts.length === 1;
  let isUsed = false;
  for (const [at, { is, from, value, text }] of parts.entries()) {
    const note = (kind: string, where = offset + from) => log.issues.push({ kind, line, offset: where });
    if (is === "lost") {
      const beginning = terminated && isAlone ? legibleBeginning(content) : undefined;
      note(terminated || !isAlone ? "corrupt" : "torn-tail");
      if (beginning) add(log, { ...beginning, entry: undefined }, offset, content, note);
      continue;
    }
    const isFirstOfAll = isFirst && !isUsed;
    isUsed = true;
    if (is === "header") {
      if (isFirstOfAll) log.header = value;
      else note("duplicate-header");
      continue;
    }
    if (isFirstOfAll) note("no-header");
    if (at > 0) note(parts[at - 1]!.is === "lost" ? "salvaged" : "glued");
    const { id, type, parentId = null } = value as { id: string; type: string; parentId?: string | null };
    const { timestamp } = value as { timestamp?: unknown };
    const entry = { ...value, timestamp: typeof timestamp === "string" ? timestamp : "" };
    add(log, { id, type, parentId, entry }, offset + from, text, note);
  }
  if (isUsed && !terminated) log.issues.push({ kind: "unterminated-tail", line, offset });
  return isUsed;
}

function add(
  log: NaiveLog,
  row: Pick<NaiveRow, "id" | "type" | "parentId" | "entry">,
  offset: number,
  content: string,
  note: (kind: string, at?: number) => void,
): void {
  const above = log.rows.findLastIndex(({ id }) => id === row.parentId);
  const parent = row.parentId === null ? -1 : above < 0 ? -2 : above;
  const older = log.rows.findLastIndex(({ id }) => id === row.id);
  const isSame = older >= 0 && log.rows[older]!.content === content && log.rows[older]!.parent === parent;
  if (isSame && !(parent < 0 && targetsSomething(row))) {
    log.lastRow = older;
    note("identical-duplicate", offset);
    return;
  }
  log.lastRow = log.rows.push({ ...row, parent, offset, content }) - 1;
  if (older >= 0) note("duplicate-id", offset);
  if (parent === -2) note("orphan", offset);
}

/** A leaf without a parent, whose target may be another entry than it was the first time. */
const targetsSomething = ({ entry }: Pick<NaiveRow, "entry">): boolean =>
  entry?.type === "leaf" && typeof entry["targetId"] === "string";

/** The value of a line given as Latin-1, or undefined. */
function parse(content: string): unknown {
  try {
    return JSON.parse(
      new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Buffer.from(content, "latin1")),
    );
  } catch {
    return undefined;
  }
}

const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function isEntry(value: unknown): value is Json {
  if (!isObject(value)) return false;
  const { type, id, parentId = null } = value;
  return (
    typeof type === "string" &&
    typeof id === "string" &&
    id !== "" &&
    (parentId === null || typeof parentId === "string")
  );
}

/** What stands on a line, in its order: where it begins, and its text up to the next one (without the space between). */
interface Part {
  is: "header" | "entry" | "lost";
  from: number;
  value: Json;
  text: string;
}

/** One thing, or whole entries at the end of the line, whole ones at its beginning, and between them what was lost. */
function partsOf(content: string): Part[] {
  if (isBlank(content)) return [];
  const found: Omit<Part, "text">[] = [];
  const whole = parse(content);
  if (whole !== undefined) found.push({ from: 0, ...judged(whole) });
  else {
    let end = content.length;
    for (let last = entryThatEnds(content, end); last; last = entryThatEnds(content, end)) {
      found.unshift(last);
      end = last.from;
    }
    const first = found.length > 0 ? partsThatBegin(content.slice(0, end)) : [];
    const rest = first.at(-1)?.end ?? 0;
    if (!isBlank(content.slice(rest, end))) first.push({ is: "lost", from: rest, value: {}, end });
    else if (rest === 0) found[0]!.from = 0;
    found.unshift(...first);
  }
  return found.map((part, at) => {
    const next = found[at + 1];
    const text = content.slice(part.from, next?.from);
    return { ...part, text: next ? text.replace(/[ \t\r]+$/, "") : text };
  });
}

const isBlank = (text: string): boolean => /^[ \t\r]*$/.test(text);

function judged(value: unknown): Pick<Part, "is" | "value"> {
  if (isObject(value) && value["type"] === "session") return { is: "header", value };
  return isEntry(value) ? { is: "entry", value } : { is: "lost", value: {} };
}

/** The whole entry that ends at `end`: it names its parent, spelt as writers spell it. */
function entryThatEnds(content: string, end: number) {
  for (let from = content.indexOf("{"); from >= 0 && from < end; from = content.indexOf("{", from + 1)) {
    const value = entryBehind(content.slice(from, end));
    if (value) return { is: "entry" as const, from, value };
  }
  return undefined;
}

function entryBehind(text: string): Json | undefined {
  const value = parse(text);
  const isOne = isEntry(value) && value["type"] !== "session" && "parentId" in value;
  return isOne && text.includes('"parentId":') ? value : undefined;
}

/** A whole header or entry at the beginning of a line, and whole entries behind it, and where each ends. */
function partsThatBegin(content: string) {
  const found: (Omit<Part, "text"> & { end: number })[] = [];
  let from = 0;
  for (let end = content.indexOf("}") + 1; end > 0; end = content.indexOf("}", end) + 1) {
    const text = content.slice(from, end);
    const value = from === 0 ? parse(text) : entryBehind(text);
    if (value === undefined) continue;
    const part = judged(value);
    if (part.is === "lost") break;
    found.push({ ...part, from: from + text.search(/[^ \t\r]/), end });
    from = end;
  }
  if (found[0]) found[0].from = 0;
  return found;
}

/** The three fields that place an entry, from the shortest beginning of a line that has them, if the line has an end. */
function legibleBeginning(content: string) {
  if (!/\}[ \t\r]*$/.test(content)) return undefined;
  for (let end = content.search(/[,}]/); end >= 0 && end < content.length; end++) {
    if (content[end] !== "," && content[end] !== "}") continue;
    const value = parse(`${content.slice(0, end)}}`);
    if (!isEntry(value) || !("parentId" in value)) continue;
    const { type, id, parentId } = value as { type: string; id: string; parentId: string | null };
    const isPlain = [type, id, parentId ?? ""].every((text) => /^[\x20-\x7e]*$/.test(text));
    return isPlain && type !== "session" ? { type, id, parentId } : undefined;
  }
  return undefined;
}

const BESIDE = new Set(["label", "session_info", "usage", "leaf"]);

/** Position of the leaf of a log whose last line holds `lastRow`; -1 before the first entry. */
export function naiveLeaf(rows: readonly NaiveRow[], lastRow: number): number {
  for (let at = lastRow; at >= 0; at--) {
    let row = at;
    if (rows[at]!.type === "leaf") {
      const target = rows[at]!.entry ? rows[at]!.entry!["targetId"] : rows[at]!.parentId;
      const wanted = target === null || typeof target === "string" ? target : rows[at]!.parentId;
      if (wanted === null) return -1;
      row = rows.slice(0, at).findLastIndex(({ id }) => id === wanted);
      if (row < 0) continue;
    }
    while (row >= 0 && BESIDE.has(rows[row]!.type)) row = rows[row]!.parent;
    if (row !== -2) return row;
  }
  return -1;
}

/** Positions from a root to `row`. */
export function naivePath(rows: readonly NaiveRow[], row: number): number[] {
  const path: number[] = [];
  for (let at = row; at >= 0; at = rows[at]!.parent) path.unshift(at);
  return path;
}
