import { resolve } from "node:path";
import { JsonlError } from "@espalier/jsonl-stream";
import {
  type Redact,
  Redactor,
  redactText,
  type SessionStore,
  SessionTreeError,
} from "@espalier/session-tree";
import { InteropError } from "../import-error.ts";
import { type ImportIssueKind, ImportIssues } from "../import-issue.ts";
import { ScratchSpace } from "../scratch/scratch-space.ts";
import { type PlannedFile, planImport } from "./import-plan.ts";
import { type ImportReport, skippedReport } from "./import-report.ts";
import type { Environment } from "./local-agent.ts";
import { SessionCatalogue } from "./session-catalogue.ts";
import { SourceFiles } from "./source-files.ts";
import { type Summarize, summariseOpaque } from "./summarise-opaque.ts";
import { TemporaryFile } from "./temporary-file.ts";
import { type Destination, writeDraft } from "./write-draft.ts";

/** Where imported sessions go, which ones, and what of them is written. */
export interface ImportOptions {
  /** Where the sessions are written. */
  store: SessionStore;
  /** Where agents keep their folders; default: `process.env`. */
  env?: Environment;
  /** Only sessions of agents that worked in this folder. */
  cwd?: string;
  /** Writes summaries in place of those that only their provider can read; without it, excerpts stand there. */
  summarize?: Summarize;
  /**
   * Takes secrets out of what is written, where lines are made of what another agent wrote; lines of the same format are
   * copied as they are. Default: well-known shapes of keys (`redactText`). False: everything is written as it is.
   */
  redact?: Redact | false;
  /** Told before each file. */
  onProgress?(progress: { path: string; index: number; total: number }): void;
}

/**
 * Imports sessions of other agents: of `claude-code`, `codex` or `pi` from where that keeps them, or from a file or
 * folder. One report a session, as they are done. Whoever stops asking stops the import; what was written stays, and the
 * next import goes on.
 *
 * Importing again adds what is new: a session is found by where it came from, an entry by an id that is made of what the
 * source calls it. Nothing is ever changed or removed, neither here nor there.
 *
 * @throws InteropError `not-found`, `no-room`, and whatever the store throws when it cannot be written
 */
export async function* importSessions(
  what: string,
  options: ImportOptions,
): AsyncGenerator<ImportReport, void> {
  const { store, env = process.env, redact = redactText, onProgress } = options;
  const files = new SourceFiles();
  const scratch = new ScratchSpace(() => new TemporaryFile());
  try {
    const planned = planImport(what, files, env, scratch);
    const redactor = redact ? new Redactor(redact) : undefined;
    const to = { store, redactor, scratch, catalogue: await SessionCatalogue.open(store, planned.length) };
    for (const [index, file] of planned.entries()) {
      onProgress?.({ path: file.path, index, total: planned.length });
      yield* importFile(file, files, to, options);
    }
  } finally {
    files.close();
    scratch.close();
  }
}

async function* importFile(
  { path, importer, problem }: PlannedFile,
  files: SourceFiles,
  to: Destination,
  { cwd, summarize }: ImportOptions,
): AsyncGenerator<ImportReport, void> {
  const agent = importer?.agent ?? null;
  try {
    if (problem) throw problem;
    const source = files.open(path);
    let drafts = 0;
    for (const draft of importer?.read(source) ?? []) {
      drafts++;
      if (cwd !== undefined && resolve(draft.cwd) !== resolve(cwd)) continue;
      const tell = (message: string) => draft.issues.add("opaque-summary", null, message);
      const rehearse = () => importer?.read(source) ?? [];
      const summaries = summarize && (await summariseOpaque(rehearse, source, summarize, tell));
      yield await writeDraft(draft, summaries ? { ...to, summaries } : to);
    }
    if (drafts === 0) yield skipped(path, agent, "not-a-session", unknownFile(path));
  } catch (error) {
    const kind = sourceProblem(error);
    if (kind === undefined) throw error;
    const { message } = error as Error;
    yield skipped(
      path,
      agent,
      kind,
      isTooLong(error) ? `${path} holds a text that is too long for this program: ${message}.` : message,
    );
  }
}

function skipped(path: string, agent: string | null, kind: ImportIssueKind, message: string): ImportReport {
  const issues = new ImportIssues();
  issues.add(kind, null, message);
  return skippedReport(path, agent, issues.list());
}

const unknownFile = (path: string): string =>
  path.endsWith(".gz")
    ? "The file is compressed with gzip, which is not read here; decompress it with `gunzip` first."
    : "No importer knows this file: it is no session of an agent.";

/** What is wrong with a source costs that source; undefined for everything else that can go wrong. */
function sourceProblem(error: unknown): ImportIssueKind | undefined {
  // While a session is written, the store says in its own words that the source was shortened.
  const isReading =
    (error instanceof InteropError && error.code !== "no-room") ||
    error instanceof JsonlError ||
    isTooLong(error) ||
    (error instanceof SessionTreeError && error.code === "shrunk");
  return isReading ? "unreadable" : undefined;
}

/** True for a text longer than the engine can hold, about 512 MB. */
function isTooLong(error: unknown): boolean {
  return (
    (error as { code?: unknown } | undefined)?.code === "ERR_STRING_TOO_LONG" ||
    (error instanceof RangeError && error.message === "Invalid string length")
  );
}
