import { HISTORY_SECTIONS, TURN_PREFIX_SECTIONS } from "@espalier/compaction";
import {
  type CreateOptions,
  createSession,
  type Extension,
  type MessageDraft,
  openSession,
  type Session,
} from "@espalier/engine";
import type { ExtensionReport } from "@espalier/extensions";
import { type Entry, memoryStore, type SessionStore, type Usage } from "@espalier/session-tree";
import type { SummaryRequest } from "@espalier/summarizer";
import { expect } from "vitest";

/** A text of so many tokens (characters / 4). */
export const words = (tokens: number, letter = "x"): string => letter.repeat(tokens * 4);

export const billed = (input: number): Usage => ({
  input,
  output: 1,
  cacheRead: 0,
  cacheWrite: 0,
  cost: { total: input },
});

const headings = (names: readonly string[], said: string) =>
  names.map((name) => `## ${name}\n${said}`).join("\n");

/** A sound answer to any request for a summary. */
export const soundAnswer = ({ sections, purpose }: Pick<SummaryRequest, "sections" | "purpose">): string =>
  sections.length > 0 ? headings(sections, `(${purpose})`) : `Told (${purpose}).`;
export const HISTORY_ANSWER = headings(HISTORY_SECTIONS, "(history)");
export const TURN_ANSWER = headings(TURN_PREFIX_SECTIONS, "(turn)");

/** What keeps one turn of the default size, and no more. */
export const TURN_TOKENS = 160;

/** The messages of one turn: a question, so many calls with results, and an answer. */
export function turn(name: string, { calls = 1, size = 50 } = {}): MessageDraft[] {
  const drafts: MessageDraft[] = [{ role: "user", content: `Question ${name}. ${words(size)}` }];
  for (let call = 1; call <= calls; call++) {
    const id = `call-${name}-${call}`;
    const path = `${name}-${call}.ts`;
    drafts.push({
      role: "assistant",
      content: [{ type: "toolCall", id, name: call % 2 ? "read" : "edit", arguments: { path } }],
    });
    drafts.push({ role: "toolResult", toolCallId: id, content: `Result ${name}-${call}. ${words(size)}` });
  }
  drafts.push({ role: "assistant", content: `Answer ${name}. ${words(size)}` });
  return drafts;
}

/** What a test wants of a session, with a store in memory unless it says otherwise. */
export interface PlantOptions extends CreateOptions {
  turns?: number;
}

export interface Planted {
  session: Session;
  store: SessionStore;
  reports: ExtensionReport[];
}

/** A session with some turns in it. */
export async function plant({ turns = 4, ...options }: PlantOptions = {}): Promise<Planted> {
  const store = options.store ?? memoryStore();
  const reports: ExtensionReport[] = [];
  const onReport = (report: ExtensionReport) => reports.push(report);
  const session = await createSession({
    store,
    onReport,
    ...options,
    compaction: { keepRecentTokens: TURN_TOKENS, ...options.compaction },
  });
  for (let at = 1; at <= turns; at++) await session.appendMessages(turn(`${at}`));
  return { session, store, reports };
}

/** A session with these extensions. */
export const plantWith = (...extensions: Extension[]): Promise<Planted> => plant({ extensions });

/** The bytes of a session's log. */
export function bytesOf({ log }: Session): Buffer {
  const view = log.view!;
  return Buffer.from(view.read(0, view.size));
}

/** The entries that a session's log got since it had these bytes; throws when the old bytes are no prefix of the new. */
export function addedSince(session: Session, before: Buffer): Entry[] {
  const now = bytesOf(session);
  if (!now.subarray(0, before.length).equals(before)) throw new Error("what stood in the log has changed");
  const text = now.subarray(before.length).toString("utf8");
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Entry);
}

/** What a model reads at the leaf now and when the session is opened again; they must be the same. */
export async function contextOf(session: Session, store: SessionStore) {
  const live = structuredClone(session.context);
  const reopened = await openSession({ file: session.file }, { store, mode: "read" });
  const again = structuredClone(reopened.context);
  await reopened.close();
  if (JSON.stringify(live) !== JSON.stringify(again)) throw new Error("reopening gives another context");
  return live;
}

/** A closed session that is opened again has the same leaf and context, no issue, and replays as it was built. */
export async function expectSameWhenReopened(session: Session, store: SessionStore): Promise<void> {
  const again = await openSession({ file: session.file }, { store, mode: "read" });
  expect(again.leafId).toBe(session.leafId);
  expect(again.context).toEqual(session.context);
  expect(again.diagnose().issues).toEqual([]);
  expect([...again.replay({ verify: true })].every(({ verified }) => verified)).toBe(true);
  await again.close();
}

/** Records which terminal events a session's extensions hear. */
export function listen() {
  const heard: { before: number; committed: unknown[]; failed: Record<string, unknown>[] } = {
    before: 0,
    committed: [],
    failed: [],
  };
  const extension: Extension = (api) => {
    api.on("session_before_compact", () => {
      heard.before++;
    });
    api.on("session_compact", (event) => {
      heard.committed.push(event);
    });
    api.on("session_compact_failed", (event) => {
      heard.failed.push({ ...event });
    });
  };
  return { heard, extension };
}
