import type { Policy } from "@espalier/compaction";
import { resolvePolicy } from "../compaction/policies.ts";
import type { SessionOptions } from "../session/state.ts";
import type { Settings } from "./settings.ts";

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
