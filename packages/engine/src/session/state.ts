import {
  sessionBeforeFork,
  sessionBeforeTree,
  sessionFork,
  sessionNavigate,
  sessionTree,
} from "@espalier/branch-summary";
import {
  type CompactionSettings,
  type Policy,
  rulesFound,
  sessionBeforeCompact,
  sessionCompact,
  sessionCompactFailed,
} from "@espalier/compaction";
import type { EventBus, OffloadStorage, PolicyLog } from "@espalier/compaction/policies";
import { type ExtensionHost, notifyHook, transformHook } from "@espalier/extensions";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  assertWritable,
  type ContextMessage,
  type Entry,
  type EntryKind,
  estimateTotal,
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
import { type PolicyName, type PolicySettings, resolvePolicy } from "../compaction/policies.ts";
import type { ExtensionContext, ExtensionModels, ExtensionUi } from "../extensions/members.ts";
import type { CacheCause } from "../reading/index.ts";
import type { Settings } from "../settings/settings.ts";
import type { Session } from "./session.ts";

/** The host that holds a session's extensions. */
export type EngineHost = ExtensionHost<EngineHooks, ExtensionContext>;

/** Log of a session that has no other: a sentence on stderr for each report. Errors come without their stacks. */
export const sentencesOnStderr: PolicyLog = {
  warn: (message, facts) => console.warn(withReason(message, facts)),
  error: (message, facts) => console.error(withReason(message, facts)),
};

function withReason(message: string, facts?: object): string {
  const { error } = (facts ?? {}) as { error?: unknown };
  const reason = error instanceof Error ? error.message : "";
  return reason === "" || message.includes(reason) ? message : `${message.replace(/\.$/, "")}: ${reason}`;
}

/** Options of a session: summaries, compaction, and what a shell lends it. */
export interface SessionOptions {
  /** Writes summaries. Default: the extractive one, which needs no network. */
  summarizer?: Summarizer;
  /**
   * Uses the extractive summarizer when `summarizer` fails. Default: for automatic compactions, and, for
   * commands, only when none was named; always for what is too long for the model.
   */
  fallback?: boolean;
  /** The policy or its name: it decides when to compact and what to keep. Default `token-budget`. */
  policy?: Policy | PolicyName;
  /** Settings of policies chosen by name; defaults fill in the rest. */
  policySettings?: PolicySettings;
  /** Settings of automatic compaction. Default `DEFAULT_COMPACTION_SETTINGS`. */
  compaction?: Partial<CompactionSettings>;
  /** Budget of the session in US dollars, for answers and summaries. Default: there is none. */
  maxCost?: number;
  /** Prices of models by `provider/model` or model, before the known ones. Default: those of the catalogue. */
  prices?: Readonly<Record<string, TokenPrices>>;
  /** Summaries asked for at the same time. Default 2; 1 for servers that take one request at a time. */
  concurrency?: number;
  /**
   * Kinds of entry besides those of the format, made with `defineEntry`. A kind gives its entries' messages for the model,
   * their problems, the durability of an append, and their drawing. Without its kind an entry is kept and shown as data.
   */
  kinds?: readonly EntryKind[];
  /** Tools that declare files, besides the common ones. */
  tools?: readonly FileTool[];
  /** User interface for extensions. */
  ui?: ExtensionUi;
  /** Models that extensions may ask, by provider and id. Default: there are none. */
  models?: ExtensionModels;
  /** Reason of the opening, for extensions. Default `startup`. */
  startReason?: StartReason;
  /**
   * Takes secrets out of every text before it is written, so that neither the file nor the model's context has them.
   * Default: well-known shapes of keys (`redactText`). False: everything is written as it is.
   */
  redact?: Redact | false;
  /** False: the user's messages are not searched for rules; recorded rules still hold. Default true. */
  rules?: boolean;
  /** Storage of results that were moved out of the context. Default: the folder beside the session's file. */
  offloadStorage?: OffloadStorage;
  /** The summarizer for a model that a policy names; undefined for one that cannot be reached. */
  summarizerForModel?: (model: string) => Summarizer | undefined;
  /** Publishes progress, changes and failures. Default: a bus of the session's own. */
  events?: EventBus;
  /** Receives warnings and errors that stop nothing. Default: a sentence for each on stderr. */
  log?: PolicyLog;
  /** The time, epoch milliseconds. Default: the system's. */
  now?: () => number;
  /** Waits between two attempts at a summary. Default: by the system's clock. */
  sleep?: Sleep;
}

/** Finds the options of a session; `modelOf` returns the current model, as `provider/id`, and reads the path for it. */
export type Settle = (modelOf: () => string | undefined) => Promise<SessionOptions>;

/** Options of a session: those it was opened with and, where a `Settle` is given, those for the current model. */
export class CurrentSettings {
  #options: SessionOptions;
  #policy: Policy;
  #settle: { by: Settle; model: string | undefined } | undefined;
  #pending: Promise<void> | undefined;

  constructor(options: SessionOptions) {
    this.#options = options;
    this.#policy = resolvePolicy(options.policy, options.policySettings);
  }

  get options(): SessionOptions {
    return this.#options;
  }

  get policy(): Policy {
    return this.#policy;
  }

  /** Set while the settings of another model are looked up. */
  get pending(): Promise<void> | undefined {
    return this.#pending;
  }

  /** Adopts `settled`, and calls `by` whenever the model is another than `model`. */
  follow(by: Settle, settled: SessionOptions, model: string | undefined): void {
    this.#take(settled);
    this.#settle = { by, model };
  }

  /** Call when the path has grown. `failed` receives the error for which the settings stay as they were. */
  pathHasGrown(modelOf: () => string | undefined, failed: (error: unknown) => void): void {
    const settle = this.#settle;
    const model = settle && modelOf();
    if (!settle || model === undefined || model === settle.model) return;
    settle.model = model;
    const settled = (this.#pending ?? Promise.resolve())
      .then(() => settle.by(() => model))
      .then((options) => this.#take(options))
      .catch(failed)
      .then(() => {
        if (this.#pending === settled) this.#pending = undefined;
      });
    this.#pending = settled;
  }

  #take(settled: SessionOptions): void {
    const options = { ...this.#options, ...settled };
    this.#policy = resolvePolicy(options.policy, options.policySettings);
    this.#options = options;
  }
}

/** Settings as options of a session; the caller chooses the summarizer. */
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

/** Options of one act of a shell. */
export interface ActOptions {
  /** Aborts the act; then nothing of it is in the log. */
  signal?: AbortSignal;
  /** Receives the progress of a summary. */
  onProgress?: (progress: SummaryProgress) => void;
}

/** Transforms the messages before a request; the request is built from the messages that handlers return. */
export const context = transformHook<readonly ContextMessage[], "messages">("context", {
  field: "messages",
  validate: (messages) => (Array.isArray(messages) ? undefined : "`messages` is not a list"),
});

/** Transforms every entry before it is written, for example to redact it. Only the returned entry is kept. */
export const entryBeforeAppend = transformHook<NewEntry, "entry">("entry_before_append", {
  field: "entry",
  validate: (entry) =>
    typeof entry === "object" && entry !== null && typeof entry.type === "string"
      ? undefined
      : "`entry` is not an entry",
});

/** A request that is about to go out and whose beginning the provider's prompt cache will lack. */
export interface CacheBreakEvent {
  cause: CacheCause;
  /** The entry that breaks the prefix; the leaf where no entry does. */
  entryId: string | null;
  /** Tokens of the context before that are paid for anew, as its provider counted them. */
  tokens: number;
  /** US dollars that this costs; null where no price is known. */
  cost: number | null;
}

/** Notifies before a request that will miss more of the prompt cache than its newest part. */
export const cacheBreak = notifyHook<CacheBreakEvent>("cache_break");

/** Notifies of every entry once it is in the log. */
export const entryAppended = notifyHook<{ entry: Entry }>("entry_appended");

/** Transforms every request to a summarizer model, which has its `purpose`, before it is sent. */
export const summaryRequest = transformHook<SummaryRequest, "request">("summary_request", {
  field: "request",
  validate: (request) =>
    typeof request === "object" &&
    request !== null &&
    Array.isArray(request.messages) &&
    [request.purpose, request.instructions, request.transcript].every((text) => typeof text === "string")
      ? undefined
      : "`request` is not a request for a summary",
});

/** Reason of an opening, in Pi's words: the program began with it, or continued from another session. */
export type StartReason = "startup" | "reload" | "new" | "resume" | "fork";

/** Reason of a closing, in Pi's words: the program ends, or continues in another session. */
export type ShutdownReason = "quit" | "reload" | "new" | "resume" | "fork";

/** A session is open, to be read or written, and its extensions are loaded. */
export const sessionStart = notifyHook<{ sessionId: string; file: string; reason: StartReason }>(
  "session_start",
);

/** A session is about to be closed; what a handler appends is still written. */
export const sessionShutdown = notifyHook<{ sessionId: string; file: string; reason: ShutdownReason }>(
  "session_shutdown",
);

/** Start of an agent's run on this session. */
export const agentStart = notifyHook<object>("agent_start");

/** End of a run; `messages` are the context it leaves. */
export const agentEnd = notifyHook<{ messages: readonly ContextMessage[] }>("agent_end");

/** The agent has ended a run and has answered messages that arrived meanwhile. */
export const agentSettled = notifyHook<object>("agent_settled");

/** Start of a turn: its request is about to be sent. */
export const turnStart = notifyHook<{ turnIndex: number; timestamp: number }>("turn_start");

/** End of a turn: the answer and the results of its calls are in the log. */
export const turnEnd = notifyHook<{
  turnIndex: number;
  message: ContextMessage;
  toolResults: readonly ContextMessage[];
}>("turn_end");

/** A tool gave its result, which is in the log. */
export const toolResult = notifyHook<{
  toolCallId: string;
  toolName: string;
  input: Record<string, unknown>;
  content: unknown;
  isError: boolean;
}>("tool_result");

/** Every hook of the engine, by the name under which extensions register. A new hook is a value and a line here. */
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

/** The hooks as a type, from which `api.on` has its names, events and answers. */
export type EngineHooks = typeof engineHooks;

/**
 * Refuses an act on a session that cannot be written, before a model is called and before a file is written.
 *
 * @throws EspalierError `read-only`; `no-header`, `version` for a log that can be read and must not be written
 */
export function refuseReadOnly({ isReadOnly, log }: Session): void {
  if (isReadOnly) throw readOnlyError(log.ref);
  assertWritable(log);
}

/** Error for an act that an extension vetoed: the same for a compaction, a navigation and a fork. */
export function cancelledBy(
  what: string,
  { by, reason }: { by: string; reason: string | null },
): EspalierError {
  const message = `The ${what} was cancelled by ${by}${reason ? `: ${reason}` : "."}`;
  return new EspalierError("cancelled", message, { by, ...(reason ? { reason } : {}) });
}

/** The policy of one act: the one it names, else the session's. */
export function currentPolicy(
  { policy, options }: Pick<Session, "policy" | "options">,
  { policy: named }: { policy?: Policy | PolicyName },
): Policy {
  return named === undefined ? policy : resolvePolicy(named, options.policySettings);
}

/** The model at the leaf, as settings name it: `provider/id`; undefined where none has answered or been chosen. */
export function currentModel({ context: { model } }: Pick<SessionTree, "context">): string | undefined {
  return model ? `${model.provider}/${model.modelId}` : undefined;
}

/**
 * Returns the context with the messages that a policy or an extension changed. Unchanged messages keep their source; from
 * the first change on, blocks signed over the old prefix cannot be sent back.
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

/** Author of a summary; one without a model is billed by its own name. */
export type SummaryAuthor = Pick<Summarizer, "name" | "model">;

/** Billed work of a provider, and its author. */
export interface BilledWork {
  /** The kind of the `usage` entry. */
  kind: "compaction" | "branch_summary";
  /** Returns the author; called only when work that failed was billed. */
  asked: () => SummaryAuthor;
}

/** Author of an extension's summary: the first of the extensions that wrote it. */
export const ownerAsked = ([name = "extension"]: readonly string[] = []): SummaryAuthor => ({ name });

/**
 * Does work that a provider may bill. Work that succeeds records the bill in its own entry; work that fails gets a
 * `usage` entry, which is then the only trace of it (T9, T12).
 *
 * @param work calls `bill` with what was billed once that is known, or throws an error that carries it
 */
export async function billUsage<Result>(
  session: Session,
  { kind, asked }: BilledWork,
  work: (bill: (usage: Usage | undefined) => void) => Promise<Result>,
): Promise<Result> {
  let billed: Usage | undefined;
  try {
    return await work((usage) => {
      billed = usage;
    });
  } catch (error) {
    const bill = billOf(error) ?? billed;
    // A fork can be made of a session that is only read: its bill is in the error alone.
    if (bill && !session.isReadOnly) await recordBill(session, kind, asked(), bill);
    throw error;
  }
}

function billOf(error: unknown): Usage | undefined {
  return error instanceof EspalierError ? error.usage : undefined;
}

/** Appends the `usage` entry for billed work that failed. */
export async function recordBill(
  session: Session,
  kind: BilledWork["kind"],
  { name, model = { provider: name, modelId: name } }: SummaryAuthor,
  billed: Usage,
): Promise<void> {
  await session.append(
    usage.of({ kind, provider: model.provider, model: model.modelId, usage: soundUsage(billed) }),
  );
}
