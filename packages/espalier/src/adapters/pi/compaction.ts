// Pi's functions for contexts and compaction, with Pi's names and shapes. Only `compact` calls a model.
import {
  type CompactionPreparation,
  type CutPoint,
  compact as carryOut,
  DEFAULT_COMPACTION_SETTINGS as DEFAULTS,
  findCutPoint as findCut,
  shouldCompact as isDue,
  prepareCompaction as planCompaction,
} from "@espalier/compaction";
import { bytesView, EspalierError, encodeLines, parseLine, scanLines } from "@espalier/jsonl-stream";
import {
  type ContextEdit,
  type ContextMessage,
  compaction,
  type Entry,
  estimateTokens,
  parseHeader,
  projectPath,
  type SessionHeader,
  type Settings,
  settingsAlong,
  type Usage,
  upgradeLog,
} from "@espalier/session-tree";
import { renderTranscript, type Summarizer, summaryPrompt } from "@espalier/summarizer";

/** Version of the session format. */
export const CURRENT_SESSION_VERSION = 3;

/** Context at a leaf, in Pi's shape. */
export interface PiSessionContext extends Settings {
  messages: ContextMessage[];
}

/** A context with the entry of each message. */
export interface SessionProjection extends PiSessionContext {
  /** The newest compaction, then the entries that it keeps, then later entries. */
  entries: { sourceEntry: Entry; messages: ContextMessage[] }[];
}

/**
 * Entries and a leaf. Null is before the first entry; no id, or an unknown one, means the last entry, as in Pi.
 *
 * @inline
 */
type PathTo = [entries: readonly Entry[], leafId?: string | null, byId?: ReadonlyMap<string, Entry>];

function pathTo(...[entries, leafId, byId]: PathTo): Entry[] {
  if (leafId === null) return [];
  const index = byId ?? new Map(entries.map((entry) => [entry.id, entry]));
  const path: Entry[] = [];
  const passed = new Set<Entry>();
  let at = (leafId === undefined ? undefined : index.get(leafId)) ?? entries.at(-1);
  // Parents in a damaged file may form a circle.
  for (; at && !passed.has(at); at = at.parentId === null ? undefined : index.get(at.parentId)) {
    passed.add(at);
    path.push(at);
  }
  return path.reverse();
}

/** Entries of the context at a leaf, the newest compaction first. */
export const buildContextEntries = (...path: PathTo): Entry[] =>
  projectPath(pathTo(...path)).map(({ entry }) => entry);

/** The context at a leaf, with the entry of each message. */
export function buildSessionProjection(...given: PathTo): SessionProjection {
  const path = pathTo(...given);
  const projected = projectPath(path).map(({ entry, messages }) => ({ sourceEntry: entry, messages }));
  const messages = projected.flatMap((said) => said.messages);
  return { entries: projected, messages, ...settingsAlong(path) };
}

/** The context at a leaf. */
export function buildSessionContext(...path: PathTo): PiSessionContext {
  const { messages, thinkingLevel, model } = buildSessionProjection(...path);
  return { messages, thinkingLevel, model };
}

/** The newest compaction among entries; null if there is none. */
export const getLatestCompactionEntry = (entries: readonly Entry[]): Entry | null =>
  entries.findLast((entry) => entry.type === compaction.type) ?? null;

/** The header and the entries of a file's text. Lines that are not JSON are left out. */
export function parseSessionEntries(content: string): (SessionHeader | Entry)[] {
  const lines = Array.from(scanLines(bytesView(new TextEncoder().encode(content))), ({ bytes }) =>
    parseLine(bytes),
  );
  return lines.flatMap((line) => (line.ok ? [line.value as Entry] : []));
}

/** Upgrades entries of an old version, in place. The ids are the same each time. */
export function migrateSessionEntries(entries: (SessionHeader | Entry)[]): void {
  const header = parseHeader(entries.find(({ type }) => type === "session"));
  const view = bytesView(encodeLines(entries.map((entry) => JSON.stringify(entry))));
  const upgraded = upgradeLog(view, header);
  if (!upgraded) return;
  for (const [at, { bytes }] of Array.from(scanLines(upgraded.view)).entries()) {
    const line = parseLine(bytes);
    const entry = entries[at] as unknown as Record<string, unknown>;
    for (const key of Object.keys(entry)) delete entry[key];
    if (line.ok) Object.assign(entry, line.value);
  }
}

/** Compaction settings with Pi's names. */
export interface PiCompactionSettings {
  enabled: boolean;
  reserveTokens: number;
  keepRecentTokens: number;
}

/** Default settings; Pi has the same. */
export const DEFAULT_COMPACTION_SETTINGS: PiCompactionSettings = {
  enabled: true,
  reserveTokens: DEFAULTS.reserveTokens,
  keepRecentTokens: DEFAULTS.keepRecentTokens,
};

/** The settings with Espalier's names. */
const settingsOf = ({ enabled, ...sizes }: PiCompactionSettings, contextWindow = DEFAULTS.contextWindow) => ({
  ...DEFAULTS,
  ...sizes,
  autoCompact: enabled,
  contextWindow,
});

/** Returns whether compaction is enabled and the context exceeds the window minus the reserve. */
export const shouldCompact = (
  contextTokens: number,
  contextWindow: number,
  { enabled, reserveTokens }: Pick<PiCompactionSettings, "enabled" | "reserveTokens">,
): boolean => isDue(contextTokens, contextWindow, { autoCompact: enabled, reserveTokens });

/** Cut of a path: index of the first kept entry, and index of the first entry of a split turn, or -1. */
export interface CutPointResult extends Pick<CutPoint, "turnStartIndex" | "isSplitTurn"> {
  firstKeptEntryIndex: number;
}

/** Finds the cut that keeps about `keepRecentTokens` of the newest entries. A call and its results stay together. */
export function findCutPoint(
  entries: readonly Entry[],
  startIndex: number,
  endIndex: number,
  keepRecentTokens: number,
): CutPointResult {
  const { firstKeptIndex, ...cut } = findCut(entries, startIndex, endIndex, keepRecentTokens);
  return { firstKeptEntryIndex: firstKeptIndex, ...cut };
}

/** Plan of a compaction in Pi's shape. It contains Espalier's plan, which {@link compact} carries out. */
export interface PiCompactionPreparation extends Omit<CompactionPreparation, "settings"> {
  settings: PiCompactionSettings;
}

/**
 * Plans a compaction of a path; undefined if there is nothing to summarize, or the path ends in a compaction. The
 * default window is 200,000 tokens.
 * @throws EspalierError `irreducible` when no cut makes the next request fit the window
 */
export function prepareCompaction(
  pathEntries: readonly Entry[],
  settings: PiCompactionSettings,
  contextWindow?: number,
): PiCompactionPreparation | undefined {
  if (pathEntries.at(-1)?.type === compaction.type) return undefined;
  const plan = planCompaction(pathEntries, settingsOf(settings, contextWindow));
  return plan.eligible ? { ...plan, settings } : undefined;
}

/** Fields of Pi's model that `compact` reads. */
export interface PiModel {
  provider: string;
  id: string;
  /** Tokens of a request and its answer together. Default 200,000. */
  contextWindow?: number;
  /** Maximum tokens of an answer. Default 8,192. */
  maxTokens?: number;
  reasoning?: boolean;
}

/** Answer of Pi's model. */
export interface PiAnswer {
  content: readonly { type: string; text?: string }[];
  stopReason: string;
  errorMessage?: string;
  usage?: Usage;
}

/** Pi's stream of an answer. Only its result is read. */
export interface PiAnswering {
  /** Resolves with the complete answer. */
  result(): Promise<PiAnswer>;
}

/** Pi's function that calls a model: `session.agent.streamFunction` (`streamFn` in older versions), or one of that shape. */
export type PiStream = (model: never, context: never, options: never) => PiAnswering | Promise<PiAnswering>;

/** A summary in Pi's shape. */
export interface PiCompactionResult {
  summary: string;
  /** Null keeps no entries; `appendCompaction` accepts it. */
  firstKeptEntryId: string | null;
  tokensBefore: number;
  usage?: Usage;
  details: { readFiles: string[]; modifiedFiles: string[] };
  /** Shortened contents that the next request needs to fit; usually none. Pass each to `appendContextEdit`. */
  edits: ContextEdit[];
}

/**
 * Requests the summary of a plan from Pi's model. Throws if the summary is empty, refused or cut off.
 * @throws EspalierError `bad-input` without a `streamFn`; `failed`, `cut-off`, `aborted` and the other codes of summaries
 */
export async function compact(
  preparation: PiCompactionPreparation,
  model: PiModel,
  apiKey?: string,
  headers?: Record<string, string>,
  customInstructions?: string,
  signal?: AbortSignal,
  thinkingLevel?: string,
  streamFn?: PiStream,
  env?: Record<string, string>,
): Promise<PiCompactionResult> {
  if (!streamFn) {
    const text =
      "compact() cannot call the model; pass `session.agent.streamFunction` as its eighth argument.";
    throw new EspalierError("bad-input", text);
  }
  const settings = settingsOf(preparation.settings, model.contextWindow);
  const reasoning =
    model.reasoning && thinkingLevel && thinkingLevel !== "off" ? { reasoning: thinkingLevel } : {};
  const ask = { apiKey, headers, env, cacheRetention: "none", ...reasoning };
  const { summary, usage, readFiles, modifiedFiles } = await carryOut(
    { ...preparation, settings },
    {
      summarizer: piSummarizer(model, streamFn, ask),
      ...(customInstructions ? { customInstructions } : {}),
      ...(signal ? { signal } : {}),
    },
  );
  return {
    summary,
    firstKeptEntryId: preparation.firstKeptEntryId,
    tokensBefore: preparation.tokensBefore,
    ...(usage ? { usage } : {}),
    details: { readFiles, modifiedFiles },
    edits: preparation.edits,
  };
}

/** Summarizer that calls Pi's model. */
function piSummarizer(model: PiModel, streamFn: PiStream, ask: object): Summarizer {
  const named = { provider: model.provider, modelId: model.id };
  return {
    name: `pi:${model.provider}/${model.id}`,
    model: named,
    contextWindow: model.contextWindow ?? DEFAULTS.contextWindow,
    maxOutputTokens: model.maxTokens ?? 8_192,
    async summarize(request) {
      const { system, user } = summaryPrompt(request);
      const content = [{ type: "text", text: user }];
      const context = { systemPrompt: system, messages: [{ role: "user", content, timestamp: Date.now() }] };
      const options = { ...ask, maxTokens: request.maxOutputTokens, signal: request.signal };
      const stream = await streamFn(model as never, context as never, options as never);
      const answer = await stream.result();
      if (answer.stopReason === "aborted") throw new EspalierError("aborted", "The summary was aborted.");
      if (answer.stopReason === "error")
        throw new EspalierError(
          "failed",
          `${named.provider} gave no summary: ${answer.errorMessage ?? "no reason"}`,
        );
      const text = answer.content
        .flatMap((block) => (block.type === "text" ? [block.text ?? ""] : []))
        .join("\n");
      const stopReason =
        answer.stopReason === "length" || answer.stopReason === "toolUse" ? answer.stopReason : "stop";
      return { text, stopReason, model: named, ...(answer.usage ? { usage: answer.usage } : {}) };
    },
  };
}

/**
 * Messages as escaped text between tags, so that no message can close its tag. Tool results are cut at 2,000 characters;
 * thinking is left out.
 */
export const serializeConversation = (messages: readonly ContextMessage[]): string =>
  renderTranscript(messages);

export { estimateTokens };

/** Returns the entries that a move from one leaf to another entry abandons, and the deepest entry on both paths. */
export function collectEntriesForBranchSummary(
  session: { getBranch(fromId?: string): Entry[] },
  oldLeafId: string | null,
  targetId: string,
): { entries: Entry[]; commonAncestorId: string | null } {
  const left = oldLeafId === null ? [] : session.getBranch(oldLeafId);
  const target = new Set(session.getBranch(targetId).map(({ id }) => id));
  const at = left.findLastIndex(({ id }) => target.has(id));
  return { entries: left.slice(at + 1), commonAncestorId: left[at]?.id ?? null };
}
