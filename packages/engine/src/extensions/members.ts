import type { ContextMessage, Entry, SessionHeader, Usage } from "@espalier/session-tree";

/** Questions of a handler about the session, in Pi's words. */
export interface SessionManager {
  /** The folder the session's agent works in. */
  getCwd(): string;
  /** The first line of the log; null where there is none. */
  getHeader(): SessionHeader | null;
  /** The `id` of the header. */
  getSessionId(): string;
  /** Opens the session: its path, or its address in another store. */
  getSessionFile(): string | undefined;
  /** Undefined where it has no name. */
  getSessionName(): string | undefined;
  /** Null before the first entry. */
  getLeafId(): string | null;
  /** Undefined before the first entry. */
  getLeafEntry(): Entry | undefined;
  /** Undefined for an id that is nowhere in the session. */
  getEntry(id: string): Entry | undefined;
  /** All entries, in file order, those of every branch. */
  getEntries(): Entry[];
  /** A path, root first; default that of the leaf. */
  getBranch(fromId?: string): Entry[];
  /** The current label of an entry. */
  getLabel(id: string): string | undefined;
}

/** Limits of a dialog. */
export interface DialogOptions {
  /** Closes the dialog: `confirm` answers false, `select` and `input` undefined. */
  signal?: AbortSignal;
  /** Closes it after so many milliseconds. Default: never. */
  timeout?: number;
}

/** Dialogs that a shell shows. Closed without an answer, `confirm` is false, and the others are undefined. */
export interface ExtensionDialogs {
  /** Asks yes or no. */
  confirm(title: string, message: string, options?: DialogOptions): Promise<boolean>;
  /** Offers choices; answers the one that was taken. */
  select(title: string, choices: string[], options?: DialogOptions): Promise<string | undefined>;
  /** Asks for a line of text. */
  input(title: string, placeholder?: string, options?: DialogOptions): Promise<string | undefined>;
}

/** User interface that a shell offers to extensions. Default: none, and no user is there. */
export interface ExtensionUi {
  /** Shows a message; default `info`. */
  notify(message: string, kind?: "info" | "warning" | "error"): void;
  /** Shows a status under a key until it is changed; undefined takes it away. Default: it is not shown. */
  setStatus?(key: string, text: string | undefined): void;
  /** Present where dialogs can be shown; `ctx.hasUI` is then true. */
  dialogs?: ExtensionDialogs;
}

/** User interface of a handler. Without a shell every member exists and does nothing. */
export interface HandlerUi extends ExtensionDialogs {
  /** See {@link ExtensionUi}. */
  notify(message: string, kind?: "info" | "warning" | "error"): void;
  /** See {@link ExtensionUi}. */
  setStatus(key: string, text: string | undefined): void;
  /** Pi's theme: colours nothing here; every member returns the text as it is. */
  theme: Record<"fg" | "bg", (colour: string, text: string) => string> &
    Record<"bold" | "italic" | "underline" | "strikethrough" | "inverse", (text: string) => string>;
}

/** A model that an extension may ask. */
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

/** Models that a program lends to extensions, as `ctx.modelRegistry`. */
export interface ExtensionModels {
  /** Undefined for a model that cannot be asked. */
  find(provider: string, id: string): ExtensionModel | undefined;
  /** Asks a model once. */
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
  percent: number;
}

/** The second argument of every handler. */
export interface ExtensionContext {
  /** The folder the session's agent works in. */
  cwd: string;
  /** True where a dialog can be shown. */
  hasUI: boolean;
  /** Pi's word for it: `rpc` where a dialog can be shown, else `print`. Pi's own components cannot: it is never `tui`. */
  mode: "rpc" | "print";
  /** Messages and dialogs for the user. */
  ui: HandlerUi;
  /** State of the session at the time of the call. */
  sessionManager: SessionManager;
  /** Models that the program lends; by default none is found. */
  modelRegistry: ExtensionModels;
  /** The model that the path names; undefined where it names none. */
  model: ExtensionModel | undefined;
  /** The thinking level that the path names, `off` by default. */
  thinkingLevel: string;
  /** Ends what is going on. */
  signal: AbortSignal;
  /** Size of the context at the leaf. */
  getContextUsage(): ContextUsage;
  /** Compacts without being waited for. */
  compact(options?: {
    customInstructions?: string;
    onComplete?: (result: unknown) => void;
    onError?: (error: Error) => void;
  }): void;
}

/** The second argument of a command: also what only a person may ask for. */
export interface ExtensionCommandContext extends ExtensionContext {
  /** Moves the leaf. A veto of another extension is `cancelled`. */
  navigateTree(
    targetId: string,
    options?: {
      summarize?: boolean;
      customInstructions?: string;
      replaceInstructions?: boolean;
      label?: string;
    },
  ): Promise<{ cancelled: boolean }>;
  /** Makes a session of its own from a path. */
  fork(entryId: string, options?: { position?: "at" | "before" }): Promise<{ cancelled: boolean }>;
  /** Waits for what other extensions have begun. */
  waitForIdle(): Promise<void>;
}

/** A command that an extension registered. */
export interface ExtensionCommand {
  name: string;
  description: string;
  /** The extension, by the name that reports use. */
  owner: string;
  /** Runs the command; `args` is the text after its name. */
  handler(args: string, ctx: ExtensionCommandContext): unknown;
}
