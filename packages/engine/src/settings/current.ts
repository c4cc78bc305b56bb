import type { Policy } from "@espalier/compaction";
import { resolvePolicy } from "../compaction/policies.ts";
import type { SessionOptions } from "../session/state.ts";
import type { Settings } from "./settings.ts";

/** Says what a session goes by; `modelOf` names the model in force, as `provider/id`, and reads the path for it. */
export type Settle = (modelOf: () => string | undefined) => Promise<SessionOptions>;

/** What a session goes by: what it was opened with and, where somebody settles it, what that says of the model in force. */
export class SettingsInForce {
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

  /** Set while another model's settings are being found out. */
  get pending(): Promise<void> | undefined {
    return this.#pending;
  }

  /** From now on `by` is asked whenever another model than this one is in force. */
  follow(by: Settle, model: string | undefined): void {
    this.#settle = { by, model };
  }

  /** To be called when the path has grown. `failed` hears why the settings stay what they were. */
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

/** Settings, as a session takes them; who summarises is for the caller to find. */
export function sessionOptionsOf(
  settings: Settings,
): Required<Pick<SessionOptions, "policy" | "policySettings" | "compaction">> {
  const { policy, summarizer: _, fallback: __, extensions: ___, ...all } = settings;
  const { autoCompact, contextWindow, requestBytes, reserveTokens, keepRecentTokens, ...policySettings } =
    all;
  return {
    policy,
    policySettings,
    compaction: { autoCompact, contextWindow, requestBytes, reserveTokens, keepRecentTokens },
  };
}
