import { type Entry, FORMAT_VERSION, type ParentLink, type SessionHeader } from "@espalier/session-tree";
import type { DraftOptions, SessionDraft } from "../import-draft.ts";
import { sessionIdFromSource } from "../import-ids.ts";
import { ImportIssues } from "../import-issue.ts";
import type { SourceFile } from "../import-source.ts";
import type { ClaudeCodeFile } from "./claude-code-file.ts";
import { Conversation } from "./conversation.ts";
import { MAIN } from "./sidechains.ts";
import type { Shoot } from "./trunk.ts";

/** What a draft is made of. */
export interface DraftParts {
  file: ClaudeCodeFile;
  sourceId: string;
  /** The row its run begins with. */
  run?: number;
  /** Asked for when the header is made. */
  parent?: () => ParentLink | undefined;
  prelude?: readonly Shoot[];
}

/** A session of Claude Code: a conversation, or the run of a sub-agent. */
export class ClaudeCodeDraft implements SessionDraft {
  readonly agent = "claude-code";
  readonly sourceId: string;
  readonly issues: ImportIssues;
  leafId: string | null | undefined;
  readonly #parts: DraftParts;

  constructor(parts: DraftParts) {
    this.#parts = parts;
    this.sourceId = parts.sourceId;
    this.issues = parts.run === undefined ? parts.file.issues : new ImportIssues();
  }

  get sessionId(): string {
    return sessionIdFromSource(this.sourceId);
  }

  get cwd(): string {
    return this.#parts.file.facts.cwd;
  }

  get source(): SourceFile {
    return this.#parts.file.source;
  }

  get lines(): number {
    const { file, run } = this.#parts;
    if (run !== undefined) return file.runs.sizeOf(run);
    let lines = file.lines.count;
    for (const beside of file.runs.all()) lines -= file.runs.sizeOf(beside);
    return lines;
  }

  header(): SessionHeader {
    const { file, parent } = this.#parts;
    const { version, time } = file.facts;
    const link = parent?.();
    return {
      type: "session",
      version: FORMAT_VERSION,
      id: this.sessionId,
      timestamp: time.iso,
      cwd: this.cwd,
      ...(link ? { parent: link } : {}),
      importedFrom: {
        agent: this.agent,
        ...(version === undefined ? {} : { version }),
        id: this.sourceId,
        digest: file.source.digest(),
      },
    };
  }

  *entries(options: DraftOptions = {}): Generator<Entry, void> {
    const { file, run = MAIN, prelude = [] } = this.#parts;
    const conversation = new Conversation(file, run, this.issues, options);
    yield* conversation.entries(prelude);
    if (run === MAIN) file.callsRead = true;
    this.leafId = conversation.leafId;
  }

  isElsewhere(): boolean {
    return false;
  }
}
