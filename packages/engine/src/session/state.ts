import {
  sessionBeforeFork,
  sessionBeforeTree,
  sessionFork,
  sessionNavigate,
  sessionTree,
} from "@espalier/branch-summary";
import {
  type CompactionSettings,
  checkCompaction,
  type Policy,
  rulesFound,
  sessionBeforeCompact,
  sessionCompact,
  sessionCompactFailed,
} from "@espalier/compaction";
import {
  type EventBus,
  type OffloadStorage,
  type PolicyLog,
  type PolicyName,
  type PolicySettings,
  resolvePolicy,
} from "@espalier/compaction/policies";
import { type ExtensionHost, notifyHook, transformHook } from "@espalier/extensions";
import { checkJson, EspalierError } from "@espalier/jsonl-stream";
import {
  assertWritable,
  type BaseEntry,
  type ContextMessage,
  type Entry,
  type EntryKind,
  estimateTotal,
  isRecord,
  kindOf,
  type NewEntry,
  type Redact,
  readOnlyError,
  type SessionContext,
  type SessionTree,
  type Usage,
  usage,
} from "@espalier/session-tree";
import {
  type FileTool,
  type Sleep,
  type Summarizer,
  type SummaryProgress,
  type SummaryRequest,
  soundUsage,
  type TokenPrices,
} from "@espalier/summarizer";
import type { ExtensionContext, ExtensionModels, ExtensionUi } from "../extensions/members.ts";
import type { CacheCause } from "../reading/requests.ts";
import type { Settings } from "../settings/settings.ts";
import type { Session } from "./session.ts";

/** The host of a session's extensions. */
export type EngineHost = ExtensionHost<EngineHooks, ExtensionContext>;

/** Default log of a session: writes a sentence to stderr for each report, without stacks of errors. */
export const sentencesOnStderr: PolicyLog = {
  warn: (message, facts) => console.warn(withReason(message, facts)),
  error: (message, facts) => console.error(withReason(message, facts)),
};

function withReason(message: string, facts?: object): string {
  const { error } = (facts ?? {}) as { error?: unknown };
  const reason = error instanceof Error ? error.message : "";
  return reason === "" || message.includes(reason) ? message : `${message.replace(/\.$/, "")}: ${reason}`;
}

/** Takes every step, also after a failed one. Throws the first error, and logs the others. */
export async function takeAll(log: PolicyLog, ...steps: (() => unknown)[]): Promise<void> {
  const errors: unknown[] = [];
  for (const step of steps)
    try {
      await step();
    } catch (error) {
      if (errors.push(error) > 1) log.error("The session was not closed completely.", { error });
    }
  if (errors.length > 0) throw errors[0];
}

/** Options of a session: summaries, compaction, and services of the shell. */
export interface SessionOptions {
  /** Summarizer. Default: the extractive one, which needs no network. */
  summarizer?: Summarizer;
  /**
   * Uses the extractive summarizer when `summarizer` fails. Default: for automatic compactions, and for commands only
   * when none was named. A request that is too long for the model always uses it.
   */
  fallback?: boolean;
  /** The policy or its name: it decides when to compact and what to keep. Default `token-budget`. */
  policy?: Policy | PolicyName;
  /** Settings of policies chosen by name; missing ones have defaults. */
  policySettings?: PolicySettings;
  /** Settings of automatic compaction. Default `DEFAULT_COMPACTION_SETTINGS`. */
  compaction?: Partial<CompactionSettings>;
  /**
   * Budget of the session in US dollars, for answers and summaries, with its sub-agents. Before each request the store is
   * listed to find them. Default: no budget.
   */
  maxCost?: number;
  /** Prices of models by `provider/model` or model; they override the known ones. Default: those of the catalogue. */
  prices?: Readonly<Record<string, TokenPrices>>;
  /**
   * Maximum number of simultaneous requests for summaries. Default 2; use 1 for servers that process one request at a
   * time.
   */
  concurrency?: number;
  /**
   * Kinds of entry in addition to those of the format, made with `defineEntry`. A kind defines its entries' messages
   * for the model, their problems, the durability of an append, and their drawing. Entries of an unknown kind are kept
   * and shown as data.
   */
  kinds?: readonly EntryKind[];
  /** Tools that declare files, in addition to the common ones. */
  tools?: readonly FileTool[];
  /** User interface for extensions. Default: none. */
  ui?: ExtensionUi;
  /** Models that extensions may call, by provider and id. Default: none. */
  models?: ExtensionModels;
  /** Reason of the opening, for extensions. Default `startup`. */
  startReason?: StartReason;
  /**
   * Removes secrets from every text before it is written, so that neither the file nor the model's context has them.
   * Default: well-known forms of keys (`redactText`). False: everything is written unchanged.
   */
  redact?: Redact | false;
  /** False: the user's messages are not searched for rules; recorded rules still apply. Default true. */
  rules?: boolean;
  /** Storage of results moved out of the context. Default: the folder next to the session's file; none without a file. */
  offloadStorage?: OffloadStorage;
  /** Returns the summarizer for a model that a policy names; undefined for a model that is not available. */
  summarizerForModel?: (model: string) => Summarizer | undefined;
  /** Publishes progress, changes and failures. Default: a new bus of the session. */
  events?: EventBus;
  /** Receives warnings, and errors that do not stop an operation. Default: writes a sentence for each to stderr. */
  log?: PolicyLog;
  /** Returns the current time in epoch milliseconds. Default: the system's. */
  now?: () => number;
  /** Waits between two attempts at a summary. Default: uses the system's clock. */
  sleep?: Sleep;
}

/** Returns the options of a session; `modelOf` reads the path and returns the current model as `provider/id`. */
export type Settle = (modelOf: () => string | undefined) => Promise<SessionOptions>;

/** Options of a session: those with which it was opened and, with a `Settle`, those for the current model. */
export class CurrentSettings {
  options: SessionOptions;
  policy: Policy;
  /** Set while the settings of another model are read. */
  pending: Promise<void> | undefined;
  #settle: { by: Settle; model: string | undefined } | undefined;

  constructor(options: SessionOptions) {
    this.options = withSoundSizes(options);
    this.policy = resolvePolicy(options.policy, options.policySettings);
  }

  /** Adopts `settled`, and calls `by` whenever the model changes from `model`. */
  follow(by: Settle, settled: SessionOptions, model: string | undefined): void {
    this.#take(settled);
    this.#settle = { by, model };
  }

  /**
   * Applies the settings of a new current model; call it after the path has grown. An error is logged, and the
   * settings stay unchanged.
   */
  pathHasGrown(session: Session): void {
    const settle = this.#settle;
    const model = settle && currentModel(session);
    if (!settle || model === undefined || model === settle.model) return;
    settle.model = model;
    const settled = (this.pending ?? Promise.resolve())
      .then(() => settle.by(() => model))
      .then((options) => this.#take(options))
      .catch((error: unknown) => {
        const reason = error instanceof Error ? error.message : String(error);
        session.logger.error(`The settings of the previous model stay current: ${reason}`, { error });
      })
      .then(() => {
        if (this.pending === settled) this.pending = undefined;
      });
    this.pending = settled;
  }

  #take(settled: SessionOptions): void {
    const options = withSoundSizes({ ...this.options, ...settled });
    this.policy = resolvePolicy(options.policy, options.policySettings);
    this.options = options;
  }
}

/** Checks the sizes, because with one that is not a number nothing would ever be due. */
const withSoundSizes = (options: SessionOptions): SessionOptions =>
  options.compaction ? { ...options, compaction: checkCompaction(options.compaction) } : options;

/** Converts settings to options of a session, except `summarizer`, `fallback` and `extensions`, which the caller sets. */
export function sessionOptionsOf(
  settings: Settings,
): Required<Pick<SessionOptions, "policy" | "policySettings" | "compaction" | "rules">> &
  Pick<SessionOptions, "prices" | "maxCost"> {
  const { policy, rules, prices, maxCost, summarizer: _, fallback: __, extensions: ___, ...all } = settings;
  const { autoCompact, contextWindow, requestBytes, reserveTokens, keepRecentTokens, ...policySettings } =
    all;
  return {
    policy,
    rules,
    policySettings,
    ...(prices ? { prices } : {}),
    ...(maxCost === undefined ? {} : { maxCost }),
    compaction: { autoCompact, contextWindow, requestBytes, reserveTokens, keepRecentTokens },
  };
}

/** Options of one action. */
export interface ActOptions {
  /** Aborts the action; the log then has at most the billed usage of its requests. */
  signal?: AbortSignal;
  /** Receives the progress of a summary. */
  onProgress?: (progress: SummaryProgress) => void;
}

/**
 * Transforms the messages before a request; the request is built from the messages that handlers return. Handlers do not
 * receive system messages, which are always sent.
 */
export const context = transformHook<readonly ContextMessage[], "messages">("context", {
  field: "messages",
  validate: (messages) => (areMessages(messages) ? undefined : "`messages` is not a list of messages"),
});

/** Returns whether a value of a handler is a list of objects with a role. */
const areMessages = (value: unknown): boolean =>
  Array.isArray(value) &&
  Array.from(value).every((one: unknown) => isRecord(one) && typeof one.role === "string");

/**
 * Transforms every given entry before it is written, for example to redact it. Only the returned entry is kept; its
 * `id`, `parentId` and `targetId` cannot change. Rule entries that the engine adds to a user message are not transformed.
 */
export const entryBeforeAppend = transformHook<NewEntry, "entry">("entry_before_append", {
  field: "entry",
  validate: (entry, given) => {
    if (!isRecord(entry) || typeof entry.type !== "string") return "`entry` is not an entry";
    const links = ["id", "parentId", "targetId"] as (keyof NewEntry)[];
    const changed = links.find((key) => entry[key] !== given[key]);
    if (changed) return `\`${changed}\` cannot be changed`;
    checkJson(entry);
    return kindOf(entry as BaseEntry).problem?.(entry as BaseEntry);
  },
});

/** A request that will miss the provider's prompt cache, before it is sent. */
export interface CacheBreakEvent {
  cause: CacheCause;
  /** Entry that causes the break: for `pause` the newest user message. The leaf when no entry does; null without a leaf. */
  entryId: string | null;
  /** Estimated tokens of the previous context that are paid again, scaled to the provider's count of that context. */
  tokens: number;
  /** Additional cost in US dollars; null when no price is known. */
  cost: number | null;
}

/** Notifies extensions of a request that will miss more than 2,000 tokens of the prompt cache, before it is sent. */
export const cacheBreak = notifyHook<CacheBreakEvent>("cache_break");

/** Notifies extensions of every entry after it is in the log. */
export const entryAppended = notifyHook<{ entry: Entry }>("entry_appended");

/** Transforms every request to a summarizer, also to the extractive one, before it is sent. It has a `purpose`. */
export const summaryRequest = transformHook<SummaryRequest, "request">("summary_request", {
  field: "request",
  validate: (request) =>
    isRecord(request) &&
    areMessages(request.messages) &&
    Array.isArray(request.sections) &&
    Number.isFinite(request.maxOutputTokens) &&
    [request.purpose, request.instructions, request.transcript].every((text) => typeof text === "string")
      ? undefined
      : "`request` is not a request for a summary",
});

/** Reason for opening a session, in Pi's terms: the program began with it, or continued from another session. */
export type StartReason = "startup" | "reload" | "new" | "resume" | "fork";

/** Reason for closing a session, in Pi's terms: the program ends, or continues in another session. */
export type ShutdownReason = "quit" | "reload" | "new" | "resume" | "fork";

/** Notifies extensions that a session is open for reading or writing, with its extensions loaded. */
export const sessionStart = notifyHook<{ sessionId: string; file: string; reason: StartReason }>(
  "session_start",
);

/** Notifies extensions that a session is about to close; entries that a handler appends are still written. */
export const sessionShutdown = notifyHook<{ sessionId: string; file: string; reason: ShutdownReason }>(
  "session_shutdown",
);

/** Notifies extensions of the start of an agent's run on this session. */
export const agentStart = notifyHook<object>("agent_start");

/** Notifies extensions of the end of a run; `messages` is the context after it. */
export const agentEnd = notifyHook<{ messages: readonly ContextMessage[] }>("agent_end");

/** Notifies extensions that a run of the agent has ended, also with an error, and that no other run has begun. */
export const agentSettled = notifyHook<object>("agent_settled");

/**
 * Notifies extensions of the start of a turn, before its request is sent. `turnIndex` counts from 0 in each run;
 * `timestamp` is in epoch milliseconds.
 */
export const turnStart = notifyHook<{ turnIndex: number; timestamp: number }>("turn_start");

/** Notifies extensions of the end of a turn: the answer and the results of its calls are in the log. */
export const turnEnd = notifyHook<{
  turnIndex: number;
  message: ContextMessage;
  toolResults: readonly ContextMessage[];
}>("turn_end");

/**
 * Notifies extensions of the result of a tool call, after it is in the log. Not sent for calls of an answer that was cut
 * off, which are not run.
 */
export const toolResult = notifyHook<{
  toolCallId: string;
  toolName: string;
  input: Record<string, unknown>;
  content: unknown;
  isError: boolean;
}>("tool_result");

/** Every hook of the engine, by its name in extensions. To add a hook, add a value and a line here. */
export const engineHooks = {
  session_before_compact: sessionBeforeCompact,
  session_compact: sessionCompact,
  session_compact_failed: sessionCompactFailed,
  session_before_fork: sessionBeforeFork,
  session_fork: sessionFork,
  session_navigate: sessionNavigate,
  session_before_tree: sessionBeforeTree,
  session_tree: sessionTree,
  context,
  entry_before_append: entryBeforeAppend,
  entry_appended: entryAppended,
  summary_request: summaryRequest,
  rules_found: rulesFound,
  session_start: sessionStart,
  session_shutdown: sessionShutdown,
  agent_start: agentStart,
  agent_end: agentEnd,
  agent_settled: agentSettled,
  turn_start: turnStart,
  turn_end: turnEnd,
  tool_result: toolResult,
  cache_break: cacheBreak,
};

/** Type of the hooks, from which `api.on` derives names, events and answers. */
export type EngineHooks = typeof engineHooks;

/**
 * Refuses an action on a session that cannot be written, before a model is called or a file is written.
 *
 * @throws EspalierError `read-only`; `no-header`, `version` for a log that can be read but must not be written
 */
export function refuseReadOnly({ isReadOnly, log }: Session): void {
  if (isReadOnly) throw readOnlyError(log.ref);
  assertWritable(log);
}

/** Returns the policy of one action: the policy that it names, else the session's. */
export function currentPolicy(
  { policy, options }: Pick<Session, "policy" | "options">,
  { policy: named }: { policy?: Policy | PolicyName },
): Policy {
  return named === undefined ? policy : resolvePolicy(named, options.policySettings);
}

/**
 * Returns the model at the leaf as settings name it: `provider/id`; undefined when no model has answered or been
 * chosen.
 */
export function currentModel({ context: { model } }: Pick<SessionTree, "context">): string | undefined {
  return model ? `${model.provider}/${model.modelId}` : undefined;
}

/**
 * Returns the context with the messages that a policy or an extension changed. Unchanged messages keep their source.
 * From the first change on, blocks that were signed over the old prefix cannot be sent back.
 */
export function shapedContext(context: SessionContext, messages: readonly ContextMessage[]): SessionContext {
  const isSame =
    messages.length === context.messages.length &&
    messages.every((message, at) => message === context.messages[at]);
  if (isSame) return context;
  const places = new Map(context.messages.map((message, at) => [message, at]));
  const sources: string[] = [];
  const prefixChanged: boolean[] = [];
  let changed = false;
  messages.forEach((message, at) => {
    const before = places.get(message);
    sources.push(before === undefined ? "" : context.sources[before]!);
    prefixChanged.push(changed || (before !== undefined && context.prefixChanged[before]!));
    if (before !== at) changed = true;
  });
  return { ...context, messages: [...messages], sources, prefixChanged, tokens: estimateTotal(messages) };
}

/** Bill of work that a provider may charge for. The work sets `usage` when it is known. */
export interface Bill {
  /** Kind in the `usage` entry. */
  kind: "compaction" | "branch_summary";
  /** Author of the summary; an author without a model is billed under its name. */
  author: Pick<Summarizer, "name" | "model">;
  usage?: Usage | undefined;
}

/** Author of a summary by extensions: the first of them; `extension` when none is named. */
export const ownerAsked = ([name = "extension"]: readonly string[]): Bill["author"] => ({ name });

/**
 * Does work that a provider may bill. Successful work records its usage in its own entry; failed work gets a `usage`
 * entry, which is then its only trace (T9, T12).
 *
 * @param work sets the bill's usage, or throws an error with the usage
 */
export async function billUsage<Result>(
  session: Session,
  bill: Bill,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    const billed = (error instanceof EspalierError ? error.usage : undefined) ?? bill.usage;
    // A read-only session can be forked: the usage is then only in the error.
    if (billed && !session.isReadOnly) await recordBill(session, { ...bill, usage: billed });
    throw error;
  }
}

/** Appends the `usage` entry for billed work that failed; nothing without usage. */
export async function recordBill(session: Session, { kind, author, usage: billed }: Bill): Promise<void> {
  if (!billed) return;
  const { name, model = { provider: name, modelId: name } } = author;
  await session.append(
    usage.of({ kind, provider: model.provider, model: model.modelId, usage: soundUsage(billed) }),
  );
}
