// Contexts and compaction of Pi by their names and shapes: pure functions over entries, and the one that asks a model.
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

/** The version of the format, in Pi's name for it. */
export const CURRENT_SESSION_VERSION = 3;

/** What a model reads at a leaf, in Pi's shape. */
export interface PiSessionContext extends Settings {
  messages: ContextMessage[];
}

/** A context with the entry of each message. */
export interface SessionProjection extends PiSessionContext {
  /** The newest compaction first, then what it keeps, then what came after it. */
  entries: { sourceEntry: Entry; messages: ContextMessage[] }[];
}

/** The path to a leaf; null is before the first entry, and an unknown id means the last entry, as in Pi. */
function pathTo(
  entries: readonly Entry[],
  leafId?: string | null,
  byId?: ReadonlyMap<string, Entry>,
): Entry[] {
  if (leafId === null) return [];
  const index = byId ?? new Map(entries.map((entry) => [entry.id, entry]));
  const path: Entry[] = [];
  const passed = new Set<Entry>();
  let at = (leafId === undefined ? undefined : index.get(leafId)) ?? entries.at(-1);
  // A damaged file may lead in a circle.
  for (; at && !passed.has(at); at = at.parentId === null ? undefined : index.get(at.parentId)) {
    passed.add(at);
    path.push(at);
  }
  return path.reverse();
}

/** Entries of the context at a leaf, the newest compaction first. */
export function buildContextEntries(
  entries: readonly Entry[],
  leafId?: string | null,
  byId?: ReadonlyMap<string, Entry>,
): Entry[] {
  return projectPath(pathTo(entries, leafId, byId)).map(({ entry }) => entry);
}

/** The context at a leaf, with the entry of each message. */
export function buildSessionProjection(
  entries: readonly Entry[],
  leafId?: string | null,
  byId?: ReadonlyMap<string, Entry>,
): SessionProjection {
  const path = pathTo(entries, leafId, byId);
  const projected = projectPath(path).map(({ entry, messages }) => ({ sourceEntry: entry, messages }));
  const messages = projected.flatMap((said) => said.messages);
  return { entries: projected, messages, ...settingsAlong(path) };
}

/** The context at a leaf. */
export function buildSessionContext(
  entries: readonly Entry[],
  leafId?: string | null,
  byId?: ReadonlyMap<string, Entry>,
): PiSessionContext {
  const { messages, thinkingLevel, model } = buildSessionProjection(entries, leafId, byId);
  return { messages, thinkingLevel, model };
}

/** The newest compaction among entries; null where there is none. */
export const getLatestCompactionEntry = (entries: readonly Entry[]): Entry | null =>
  entries.findLast((entry) => entry.type === compaction.type) ?? null;

/** The values of the lines of a file, its header among them. Lines that cannot be read are left out. */
export function parseSessionEntries(content: string): (SessionHeader | Entry)[] {
  const lines = Array.from(scanLines(bytesView(new TextEncoder().encode(content))), ({ bytes }) =>
    parseLine(bytes),
  );
  return lines.flatMap((line) => (line.ok ? [line.value as Entry] : []));
}

/** Brings entries of an old version to the current one, in place: the same ids each time. */
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

/** Settings of compaction in Pi's names. */
export interface PiCompactionSettings {
  enabled: boolean;
  reserveTokens: number;
  keepRecentTokens: number;
}

/** Pi's defaults, which are ours. */
export const DEFAULT_COMPACTION_SETTINGS: PiCompactionSettings = {
  enabled: true,
  reserveTokens: DEFAULTS.reserveTokens,
  keepRecentTokens: DEFAULTS.keepRecentTokens,
};

/** Returns whether a context is larger than the window less the reserve, and compaction is on. */
export const shouldCompact = (
  contextTokens: number,
  contextWindow: number,
  { enabled, reserveTokens }: Pick<PiCompactionSettings, "enabled" | "reserveTokens">,
): boolean => isDue(contextTokens, contextWindow, { autoCompact: enabled, reserveTokens });

/** Cut of a path: the index of the first entry that stays, and of the turn that is cut, or -1. */
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

/** Plans a compaction of a path; undefined where there is nothing to summarise. The window is 200,000 unless it is given. */
export function prepareCompaction(
  pathEntries: readonly Entry[],
  settings: PiCompactionSettings,
  contextWindow: number = DEFAULTS.contextWindow,
): PiCompactionPreparation | undefined {
  const last = pathEntries.at(-1);
  if (last?.type === compaction.type) return undefined;
  const { enabled, ...sizes } = settings;
  const plan = planCompaction(pathEntries, { ...sizes, autoCompact: enabled, contextWindow });
  return plan.eligible ? { ...plan, settings } : undefined;
}

/** The part of Pi's model that is read here. */
export interface PiModel {
  provider: string;
  id: string;
  /** Tokens of a request and its answer. Default 200,000. */
  contextWindow?: number;
  /** The most tokens of an answer. Default 8,192. */
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

/** An answer on its way: the stream of Pi, of which only the end is read. */
export interface PiAnswering {
  /** Resolves with the complete answer. */
  result(): Promise<PiAnswer>;
}

/** Pi's way to a model: `session.agent.streamFunction` (`streamFn` in older versions), or a function of that shape. */
export type PiStream = (model: never, context: never, options: never) => PiAnswering | Promise<PiAnswering>;

/** A summary in Pi's shape. */
export interface PiCompactionResult {
  summary: string;
  /** Null keeps nothing: `appendCompaction` takes it. */
  firstKeptEntryId: string | null;
  tokensBefore: number;
  usage?: Usage;
  details: { readFiles: string[]; modifiedFiles: string[] };
  /** Shortened content with which the next request fits: append each with `appendContextEdit`. Mostly none. */
  edits: ContextEdit[];
}

/**
 * Asks Pi's model for the summary of a plan. Throws for an empty, refused or cut-off summary, as every compaction does.
 * @throws EspalierError the codes of summaries; `bad-input` without a `streamFn`
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
      "compact() has no way to the model; give it `session.agent.streamFunction` as its eighth argument.";
    throw new EspalierError("bad-input", text);
  }
  const { enabled, ...sizes } = preparation.settings;
  const settings = {
    ...DEFAULTS,
    ...sizes,
    autoCompact: enabled,
    contextWindow: model.contextWindow ?? DEFAULTS.contextWindow,
  };
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
 * The messages as escaped data between tags, which nothing in them can close; tool results at 2,000 characters, without
 * thinking.
 */
export const serializeConversation = (messages: readonly ContextMessage[]): string =>
  renderTranscript(messages);

export { estimateTokens };

/** Entries that a navigation from a leaf to another entry abandons, and the deepest entry on both paths. */
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
