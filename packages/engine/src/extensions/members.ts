import type { ContextMessage, Entry, SessionHeader, Usage } from "@espalier/session-tree";

/** Read access of a handler to the session, with Pi's names. */
export interface SessionManager {
  /** Returns the folder of the session's agent. */
  getCwd(): string;
  /** Returns the first line of the log; null when there is none. */
  getHeader(): SessionHeader | null;
  /** Returns the `id` of the header. */
  getSessionId(): string;
  /** Returns the path of the session's file, or its address in another store. */
  getSessionFile(): string | undefined;
  /** Returns the session's name; undefined when it has none. */
  getSessionName(): string | undefined;
  /** Returns the leaf's id; null before the first entry. */
  getLeafId(): string | null;
  /** Returns the leaf; undefined before the first entry. */
  getLeafEntry(): Entry | undefined;
  /** Returns an entry; undefined for an id that is not in the session. */
  getEntry(id: string): Entry | undefined;
  /** Returns all entries in file order, including those of other branches. */
  getEntries(): Entry[];
  /** Returns a path, root first. Default: that of the leaf. Throws `unknown-entry`. */
  getBranch(fromId?: string): Entry[];
  /** Returns the current label of an entry; undefined when it has none. */
  getLabel(id: string): string | undefined;
}

/** Limits of a dialog. */
export interface DialogOptions {
  /** Closes the dialog: `confirm` answers false, `select` and `input` undefined. */
  signal?: AbortSignal;
  /** Closes the dialog after this number of milliseconds. Default: never. */
  timeout?: number;
}

/**
 * Dialogs of a shell. When a dialog closes without an answer, `confirm` returns false, and the others return undefined.
 */
export interface ExtensionDialogs {
  /** Asks a yes-or-no question. */
  confirm(title: string, message: string, options?: DialogOptions): Promise<boolean>;
  /** Shows choices; returns the chosen one. */
  select(title: string, choices: string[], options?: DialogOptions): Promise<string | undefined>;
  /** Asks for a line of text. */
  input(title: string, placeholder?: string, options?: DialogOptions): Promise<string | undefined>;
}

/** User interface that a shell provides to extensions. Default: no user interface. */
export interface ExtensionUi {
  /** Shows a message. Default kind: `info`. */
  notify(message: string, kind?: "info" | "warning" | "error"): void;
  /** Shows a status under a key until it changes; undefined removes it. Default: the status is not shown. */
  setStatus?(key: string, text: string | undefined): void;
  /** Dialogs; when they are present, `ctx.hasUI` is true. */
  dialogs?: ExtensionDialogs;
}

/** User interface of a handler. Without a shell, messages are not shown, and dialogs close at once without an answer. */
export interface HandlerUi extends ExtensionDialogs, Required<Omit<ExtensionUi, "dialogs">> {
  /** Pi's theme without colours: every member returns the text unchanged. */
  theme: Record<"fg" | "bg", (colour: string, text: string) => string> &
    Record<"bold" | "italic" | "underline" | "strikethrough" | "inverse", (text: string) => string>;
}

/** A model that an extension may call. */
export interface ExtensionModel {
  provider: string;
  id: string;
}

/** Answer of a model to an extension. */
export interface ExtensionAnswer {
  content: { type: string; text?: string }[];
  usage?: Usage;
  stopReason?: string;
  errorMessage?: string;
}

/** Models that a program provides to extensions, as `ctx.modelRegistry`. */
export interface ExtensionModels {
  /** Returns a model; undefined when it cannot be called. */
  find(provider: string, id: string): ExtensionModel | undefined;
  /** Sends one request to a model. */
  complete(
    model: ExtensionModel,
    request: { systemPrompt?: string; messages: readonly ContextMessage[] },
    options?: { maxTokens?: number; signal?: AbortSignal },
  ): Promise<ExtensionAnswer>;
}

/** Size of the context at the leaf, in tokens. */
export interface ContextUsage {
  tokens: number;
  /** Tokens of the model's window. */
  contextWindow: number;
  /** `tokens` in percent of `contextWindow`; can be above 100. */
  percent: number;
}

/** Second argument of every handler. */
export interface ExtensionContext {
  /** Folder of the session's agent. */
  cwd: string;
  /** True when a dialog can be shown. */
  hasUI: boolean;
  /**
   * Mode in Pi's terms: `rpc` when a dialog can be shown, else `print`; never `tui`, because Pi's own components are
   * not available.
   */
  mode: "rpc" | "print";
  /** Messages and dialogs for the user. */
  ui: HandlerUi;
  /** State of the session at the time of the call. */
  sessionManager: SessionManager;
  /** Models that the program provides. Default: none. */
  modelRegistry: ExtensionModels;
  /** The model of the path; undefined when the path names none. */
  model: ExtensionModel | undefined;
  /** The thinking level of the path. Default `off`. */
  thinkingLevel: string;
  /** Signal that is aborted together with the current operation. */
  signal: AbortSignal;
  /** Returns the estimated size of the context at the leaf. */
  getContextUsage(): ContextUsage;
  /**
   * Starts a compaction without waiting for it. `onError` also receives the reason when there is nothing to compact;
   * without `onError`, a failure is reported.
   */
  compact(options?: {
    customInstructions?: string;
    onComplete?: (result: unknown) => void;
    onError?: (error: Error) => void;
  }): void;
}

/** Second argument of a command, with the additional actions that only a user may request. */
export interface ExtensionCommandContext extends ExtensionContext {
  /** Moves the leaf, as `Session.navigate` does. After a veto of an extension, `cancelled` is true. */
  navigateTree(
    targetId: string,
    options?: {
      summarize?: boolean;
      customInstructions?: string;
      replaceInstructions?: boolean;
      label?: string;
    },
  ): Promise<{ cancelled: boolean }>;
  /** Makes a new session from a path. Default position: `before`. After a veto of an extension, `cancelled` is true. */
  fork(entryId: string, options?: { position?: "at" | "before" }): Promise<{ cancelled: boolean }>;
  /** Waits for work of the session that is running: compactions, and appends and handlers of extensions. */
  waitForIdle(): Promise<void>;
}

/** A command that an extension registered. */
export interface ExtensionCommand {
  name: string;
  description: string;
  /** Name of the extension, as in reports. */
  owner: string;
  /** Runs the command; `args` is the text after its name. */
  handler(args: string, ctx: ExtensionCommandContext): unknown;
}
