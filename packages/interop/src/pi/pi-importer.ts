import { type ByteView, parseLine, scanLines } from "@espalier/jsonl-stream";
import {
  FORMAT_VERSION,
  parseHeader,
  type SessionHeader,
  type SessionIssue,
  Tree,
  upgradeLog,
} from "@espalier/session-tree";
import type { SessionDraft, SessionImporter } from "../import-draft.ts";
import { sessionIdFromSource } from "../import-ids.ts";
import { type ImportIssueKind, ImportIssues } from "../import-issue.ts";
import { type SourceFile, sourceName } from "../import-source.ts";

/**
 * Reads sessions of Pi (`~/.pi/agent/sessions/<folder>/<time>_<id>.jsonl`), whose format is ours: lines are copied as they
 * are, those of versions 1 and 2 upgraded. A file of an old version is held in memory meanwhile.
 */
export function piImporter(): SessionImporter {
  return {
    agent: "pi",
    recognises: (line) => parseHeader(line) !== undefined,
    *read(source): Generator<SessionDraft, void> {
      const header = firstHeader(source.view);
      if (header) yield new PiDraft(source, header);
    },
  };
}

class PiDraft implements SessionDraft {
  readonly agent = "pi";
  readonly source: SourceFile;
  readonly sourceId: string;
  readonly issues = new ImportIssues();
  lines = 0;
  /** Where the copied lines say. */
  readonly leafId = undefined;
  readonly #header: SessionHeader;

  constructor(source: SourceFile, header: SessionHeader) {
    this.source = source;
    this.#header = header;
    this.sourceId = header.id === "" ? sourceName(source.path) : header.id;
  }

  get sessionId(): string {
    return sessionIdFromSource(this.sourceId);
  }

  get cwd(): string {
    return this.#header.cwd;
  }

  header(): SessionHeader {
    const { version } = this.#header;
    return {
      ...this.#header,
      version: Math.max(version, FORMAT_VERSION),
      id: this.sessionId,
      importedFrom: {
        agent: this.agent,
        version: String(version),
        id: this.sourceId,
        digest: this.source.digest(),
      },
    };
  }

  *entries(): Generator<Uint8Array, void> {
    const { view } = this.source;
    const upgraded = upgradeLog(view, this.#header)?.view ?? view;
    for (const issue of new Tree(upgraded).issues) this.#tell(issue);
    let hasHeader = false;
    for (const { bytes } of scanLines(upgraded)) {
      if (bytes.every(isSpace)) continue;
      this.lines++;
      if (!hasHeader && isHeader(bytes)) hasHeader = true;
      else yield bytes.slice();
    }
  }

  isElsewhere(): boolean {
    return false;
  }

  #tell({ kind, line, message, id }: SessionIssue): void {
    const told = KINDS.get(kind);
    if (told) this.issues.add(told, line, message, id);
  }
}

/** What the lines of a session can suffer from, in the words of a report. All of them are copied. */
const KINDS: ReadonlyMap<SessionIssue["kind"], ImportIssueKind> = new Map([
  ["corrupt", "unreadable-content"],
  ["torn-tail", "unreadable-content"],
  ["salvaged", "salvaged"],
  ["duplicate-id", "duplicate-id"],
  ["orphan", "phantom-parent"],
  ["version", "newer-version"],
]);

/** How many lines are looked at for the header: it is the first one that can be read. */
const LINES = 50;

function firstHeader(view: ByteView): SessionHeader | undefined {
  let seen = 0;
  for (const { bytes } of scanLines(view, { blockSize: 1 << 16 })) {
    if (++seen > LINES) break;
    const parsed = parseLine(bytes);
    if (parsed.ok) return parseHeader(parsed.value);
  }
  return undefined;
}

function isHeader(bytes: Uint8Array): boolean {
  const parsed = parseLine(bytes);
  return parsed.ok && parseHeader(parsed.value) !== undefined;
}

const isSpace = (byte: number): boolean => byte === 32 || byte === 9 || byte === 13;
