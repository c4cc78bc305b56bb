import type { Shell } from "../shell.ts";

/**
 * What goes wrong without stopping anything, in a chat. Failures are told where they belong, by the agent's events and
 * by the commands; the reason of the last one is kept for them.
 */
export class ChatLog {
  readonly #shell: Pick<Shell, "complain">;
  #reason = "";

  constructor(shell: Pick<Shell, "complain">) {
    this.#shell = shell;
  }

  warn(message: string): void {
    this.#shell.complain(message);
  }

  error(message: string, details?: { error: unknown }): void {
    this.#reason = details?.error instanceof Error ? details.error.message : message;
  }

  /** Why the last thing failed; empty when nothing has since it was asked. */
  takeReason(): string {
    const reason = this.#reason;
    this.#reason = "";
    return reason;
  }
}
