import type { ExtensionCommandContext } from "./extension-context.ts";

/** A command that an extension registered. */
export interface ExtensionCommand {
  name: string;
  description: string;
  /** The extension, by the name that reports use. */
  owner: string;
  /** Runs the command; `args` is the text behind its name. */
  handler(args: string, ctx: ExtensionCommandContext): unknown;
}

/** Acts of the session that extensions begin. */
export interface ExtensionActs {
  /** Compacts the path of the leaf. */
  compact(options: { instructions?: string }): Promise<{ eligible: boolean; reason?: unknown }>;
  /** Moves the leaf. */
  navigate(
    targetId: string,
    options: { summarize?: boolean; instructions?: string; replaceInstructions?: boolean; label?: string },
  ): Promise<unknown>;
  /** Starts a new session from a path of this one. */
  fork(entryId: string, options: { position?: "at" | "before" }): Promise<unknown>;
  /** Labels an entry; without a text, clears the label. */
  label(targetId: string, text?: string): Promise<string>;
  /** Names the session. */
  rename(name: string): Promise<string>;
}

/** What the extensions of one session share besides handlers. */
export class ExtensionMembers {
  readonly acts: ExtensionActs;
  readonly commands = new Map<string, ExtensionCommand>();
  /** Values of flags that extensions registered: their defaults. */
  readonly flags = new Map<string, boolean | string | undefined>();
  readonly #listeners = new Map<string, Set<(data: unknown) => unknown>>();
  #dialog: Promise<unknown> = Promise.resolve();

  constructor(acts: ExtensionActs) {
    this.acts = acts;
  }

  /** Hears a channel that extensions talk on; returns the function that ends it. */
  on(channel: string, listener: (data: unknown) => unknown): () => void {
    const listeners = this.#listeners.get(channel) ?? new Set();
    this.#listeners.set(channel, listeners.add(listener));
    return () => listeners.delete(listener);
  }

  /** Those who hear a channel, in the order in which they asked for it. */
  listeners(channel: string): ((data: unknown) => unknown)[] {
    return [...(this.#listeners.get(channel) ?? [])];
  }

  /** Shows one dialog after the other. */
  inTurn<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
    const answer = this.#dialog.then(ask);
    this.#dialog = answer.catch(() => undefined);
    return answer;
  }
}
