import { AsyncLocalStorage } from "node:async_hooks";
import { trustedTokens } from "@espalier/compaction";
import { type DecideHook, deepFreeze, ExtensionError } from "@espalier/extensions";
import { EspalierError } from "@espalier/jsonl-stream";
import { redactFolder, type SessionHeader } from "@espalier/session-tree";
import { summaryError } from "@espalier/summarizer";
import { situationOf } from "../compaction/request.ts";
import type { Session } from "../session/session.ts";
import type {
  DialogOptions,
  ExtensionCommandContext,
  ExtensionContext,
  ExtensionDialogs,
  ExtensionModels,
  HandlerUi,
} from "./members.ts";

/**
 * Returns the folder of the session's agent: that of the header; the process's folder when the header has none, or has
 * the process's folder in its redacted form.
 */
export function sessionFolder(header: Pick<SessionHeader, "cwd"> | null | undefined): string {
  const here = process.cwd();
  return header && header.cwd !== "" && header.cwd !== redactFolder(here) ? header.cwd : here;
}

/** Name of the extension whose handler or command runs. */
const caller = new AsyncLocalStorage<string>();

/** Runs a handler or a command of an extension, so that errors of everything it starts name the extension. */
export const runAs = <Result>(owner: string, act: () => Result): Result => caller.run(owner, act);

/** Returns the name of the extension whose handler or command runs. */
const callingExtension = (): string => caller.getStore() ?? "An extension";

/** Makes the context that the handlers of one call receive. */
export function contextForHandlers(
  session: Session,
  signal: AbortSignal = new AbortController().signal,
): ExtensionContext {
  return withMissingMembers("ctx", membersOf(session, signal));
}

/**
 * Asks the extensions before an action: a compaction, a navigation or a fork.
 *
 * @throws EspalierError `aborted`; `cancelled` for a veto
 */
export async function askExtensions<Payload extends { signal: AbortSignal }, Answer extends object>(
  session: Session,
  what: string,
  hook: DecideHook<Payload, Answer>,
  payload: NoInfer<Payload>,
) {
  const decision = await session.host.decide(hook, payload, contextForHandlers(session, payload.signal));
  const { aborted, cancelled } = decision;
  if (aborted) throw abortedAct(what);
  if (!cancelled) return decision;
  const { by, reason } = cancelled;
  const message = `The ${what} was cancelled by ${by}${reason ? `: ${reason}` : "."}`;
  throw new EspalierError("cancelled", message, { by, ...(reason ? { reason } : {}) });
}

/** Makes the error of an aborted action. */
export const abortedAct = (what: string) => summaryError("aborted", `The ${what} was aborted.`);

/** Makes the context of a command. */
export function commandContext(
  session: Session,
  signal: AbortSignal = new AbortController().signal,
): ExtensionCommandContext {
  const members = Object.assign(membersOf(session, signal), {
    navigateTree: (targetId, { customInstructions: instructions, ...options } = {}) =>
      reportVeto(session.navigate(targetId, { ...options, ...(instructions ? { instructions } : {}) })),
    fork: (entryId, options = {}) =>
      reportVeto(session.fork(entryId, { position: options.position ?? "before" })),
    waitForIdle: () => session.settle(),
  } satisfies Partial<ExtensionCommandContext>);
  return withMissingMembers("ctx", members);
}

/** Returns a veto as an answer, as Pi does. */
async function reportVeto(act: Promise<unknown>): Promise<{ cancelled: boolean }> {
  try {
    await act;
    return { cancelled: false };
  } catch (error) {
    if (error instanceof EspalierError && error.code === "cancelled") return { cancelled: true };
    throw error;
  }
}

function membersOf(session: Session, signal: AbortSignal): ExtensionContext {
  const { options } = session;
  return {
    cwd: sessionFolder(session.header),
    hasUI: options.ui?.dialogs !== undefined,
    mode: options.ui?.dialogs ? "rpc" : "print",
    ui: uiOf(session, signal),
    sessionManager: withMissingMembers("ctx.sessionManager", {
      getCwd: () => sessionFolder(session.header),
      getHeader: () => session.header ?? null,
      getSessionId: () => session.id,
      getSessionFile: () => session.log.ref,
      getSessionName: () => session.name,
      getLeafId: () => session.leafId,
      // Entries of the log never change: handlers get frozen entries.
      getLeafEntry: () =>
        session.leafId === null ? undefined : deepFreeze(session.getEntry(session.leafId)),
      getEntry: (id: string) => deepFreeze(session.getEntry(id)),
      getEntries: () => session.getEntries().map(deepFreeze),
      getBranch: (fromId?: string) => session.getBranch(fromId).map(deepFreeze),
      getLabel: (id: string) => session.getLabel(id),
    }),
    modelRegistry: withMissingMembers("ctx.modelRegistry", options.models ?? NO_MODELS),
    // Read on request: a long context takes a while to build.
    get model() {
      const { model } = session.context;
      return model ? { provider: model.provider, id: model.modelId } : undefined;
    },
    get thinkingLevel() {
      return session.context.thinkingLevel;
    },
    signal,
    getContextUsage() {
      const { contextWindow } = situationOf(session, {}).settings;
      const tokens = trustedTokens(session.context, 0);
      return { tokens, contextWindow, percent: (tokens / contextWindow) * 100 };
    },
    compact({ customInstructions, onComplete, onError } = {}) {
      const owner = callingExtension();
      const wish = customInstructions ? { instructions: customInstructions } : {};
      const told = session.compact(wish).then((result) => {
        if (!result.eligible) throw new Error(String(result.reason));
        return onComplete?.(result);
      });
      void session.track(
        told.catch((error: Error) => {
          if (onError) return onError(error);
          const message = `${owner} called ctx.compact, which failed: ${error.message}`;
          session.host.report({ kind: "failed-act", owners: [owner], hook: null, message, error });
        }),
      );
    },
  };
}

const NO_MODELS: ExtensionModels = {
  find: () => undefined,
  complete: async ({ provider, id }) => {
    throw new Error(`The model ${provider}/${id} is not available here.`);
  },
};

function uiOf({ options, extensionMembers }: Session, signal: AbortSignal): HandlerUi {
  const { ui } = options;
  const plain = (text: string) => text;
  const coloured = (_: string, text: string) => text;
  /**
   * Shows one dialog at a time. It closes without an answer when it is aborted, when its time limit ends, or when the
   * action ends.
   */
  function askDialog<Answer>(
    without: Answer,
    { signal: own, timeout }: DialogOptions,
    ask: (dialogs: ExtensionDialogs, limits: DialogOptions) => Promise<Answer>,
  ): Promise<Answer> {
    const dialogs = ui?.dialogs;
    if (!dialogs) return Promise.resolve(without);
    return extensionMembers.dialogs.take(async () => {
      const ends = [signal, ...(own ? [own] : []), ...(timeout ? [AbortSignal.timeout(timeout)] : [])];
      const end = AbortSignal.any(ends);
      return end.aborted ? without : ask(dialogs, { signal: end, ...(timeout ? { timeout } : {}) });
    });
  }
  return withMissingMembers("ctx.ui", {
    notify: (message, kind = "info") => ui?.notify(message, kind),
    setStatus: (key, text) => ui?.setStatus?.(key, text),
    confirm: (title, message, limits = {}) =>
      askDialog(false, limits, (dialogs, ends) => dialogs.confirm(title, message, ends)),
    select: (title, choices, limits = {}) =>
      askDialog<string | undefined>(undefined, limits, (dialogs, ends) =>
        dialogs.select(title, choices, ends),
      ),
    input: (title, placeholder, limits = {}) =>
      askDialog<string | undefined>(undefined, limits, (dialogs, ends) =>
        dialogs.input(title, placeholder, ends),
      ),
    theme: {
      fg: coloured,
      bg: coloured,
      bold: plain,
      italic: plain,
      underline: plain,
      strikethrough: plain,
      inverse: plain,
    },
  } satisfies HandlerUi);
}

/**
 * Wraps an object so that calling a missing member throws a sentence with the member's name instead of a plain
 * TypeError. Existing members, members of every object, and names that programs read from any value are unchanged.
 *
 * @param what the object's name in an extension, such as `ctx.ui`
 */
export function withMissingMembers<Members extends object>(what: string, members: Members): Members {
  return new Proxy(members, {
    get(target, name, receiver) {
      if (typeof name === "symbol" || name in target || ASKED_OF_ANY.has(name))
        return Reflect.get(target, name, receiver);
      return missingMember(`${what}.${name}`);
    },
  });
}

/** Returns a placeholder for a missing member: a call, an instance or a property of it throws the sentence. */
export function missingMember(
  name: string,
  sentence = `${name} is not available here; "Write an extension" in the guides lists the available members.`,
): object {
  const refuse = (): never => {
    throw new ExtensionError("missing-member", sentence);
  };
  // A class of the extension may extend it: the error comes when an instance is made.
  return new Proxy(function missing() {}, {
    apply: refuse,
    construct: refuse,
    get: (target, key, receiver) =>
      typeof key === "symbol" || key in target || ASKED_OF_ANY.has(key)
        ? Reflect.get(target, key, receiver)
        : refuse(),
  });
}

/** Names that promises, JSON, printers and comparisons read from any value. */
const ASKED_OF_ANY: ReadonlySet<string> = new Set([
  "then",
  "toJSON",
  "default",
  "__esModule",
  "$$typeof",
  "nodeType",
  "asymmetricMatch",
]);
