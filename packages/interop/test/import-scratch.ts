import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { type ImportOptions, type ImportReport, importSessions } from "@espalier/interop/node";
import {
  type ContextMessage,
  type Entry,
  memoryStore,
  messageText,
  type SessionStore,
  SessionTree,
} from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { afterAll } from "vitest";
import { SESSION } from "./claude-code-lines.ts";
import { rolloutName, THREAD } from "./codex-lines.ts";

const folders: string[] = [];

afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** A folder that is gone when the test file is done. */
export function scratchFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "espalier-import-"));
  folders.push(folder);
  return folder;
}

/** A store of its own. */
export const scratchStore = (): SessionStore => fileStore({ home: scratchFolder() });

/** Writes a file of lines: objects as JSON, texts and bytes as they are. */
export function writeLines(path: string, lines: readonly unknown[]): string {
  mkdirSync(dirname(path), { recursive: true });
  const text = lines.map((line) => `${typeof line === "string" ? line : JSON.stringify(line)}\n`).join("");
  writeFileSync(path, text);
  return path;
}

/** Writes the file of a session of Claude Code, in a folder of its own where none is given. */
export const writeSession = (
  lines: readonly unknown[],
  folder = scratchFolder(),
  sessionId = SESSION,
): string => writeLines(join(folder, `${sessionId}.jsonl`), lines);

/** Writes a rollout of Codex, in a folder of its own where none is given. */
export const writeRollout = (lines: readonly unknown[], folder = scratchFolder(), thread = THREAD): string =>
  writeLines(join(folder, rolloutName(thread)), lines);

/** All reports of an import. */
export async function importAll(
  what: string,
  store: SessionStore,
  options: Partial<ImportOptions> = {},
): Promise<ImportReport[]> {
  const reports: ImportReport[] = [];
  for await (const report of importSessions(what, { store, ...options })) reports.push(report);
  return reports;
}

/** An imported session, loaded. */
export interface Imported {
  session: SessionTree;
  report: ImportReport;
  reports: ImportReport[];
  entries: Entry[];
}

/** Imports a file or folder and opens the first session of it. */
export async function imported(
  what: string,
  { store = memoryStore(), ...options }: Partial<ImportOptions> = {},
): Promise<Imported> {
  const reports = await importAll(what, store, options);
  const [report] = reports;
  return { ...(await opened(store, report!)), report: report!, reports };
}

/** The session of a report. */
export async function opened(
  store: SessionStore,
  { file }: ImportReport,
): Promise<{ session: SessionTree; entries: Entry[] }> {
  const session = await SessionTree.open(await store.open({ file: file! }, "read"));
  await session.load();
  return { session, entries: [...session.tree.entries()] };
}

/** What is said in a context, a line each: `user: …`; what was put in beside the conversation aside. */
export function said(messages: readonly ContextMessage[]): string[] {
  return messages
    .filter(({ role }) => role !== "custom")
    .map((message) => `${message.role}: ${messageText(message)}`);
}

/** An entry as a test looks at it: any of its fields. */
// biome-ignore lint/suspicious/noExplicitAny: a test fails where a field is not what it expects
export type AnyEntry = any;

/** The entry with this id. */
export const entryWith = (entries: readonly Entry[], id: string): AnyEntry =>
  entries.find((entry) => entry.id === id);

/**
 * What is said, with parts of one answer joined: one that was taken in when half of it was written stays two messages,
 * which a request says as one.
 */
export function joined(lines: readonly string[]): string[] {
  const merged: string[] = [];
  for (const line of lines.map((text) => text.replaceAll("\n", ""))) {
    const isAnswer = line.startsWith("assistant: ");
    if (isAnswer && merged.at(-1)?.startsWith("assistant: ")) merged.push(`${merged.pop()}${line.slice(11)}`);
    else merged.push(line);
  }
  // Where a result came between the parts, the order of parts and results differs, and nothing else.
  return merged.filter((line) => line !== "assistant: ").sort();
}

/** What a file gives that is imported once when it has so many lines, and once when it is whole. */
export async function inTwoGoes(name: string, lines: readonly unknown[], first: number): Promise<Imported> {
  const folder = scratchFolder();
  const store = memoryStore();
  await importAll(writeLines(join(folder, name), lines.slice(0, first)), store);
  return imported(writeLines(join(folder, name), lines), { store });
}
