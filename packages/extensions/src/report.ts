import { describeThrown, type ExtensionError } from "./extension-error.ts";
import type { Registration } from "./registry.ts";

/**
 * - `threw`, `timed-out`: a handler was skipped, or, being critical, stopped what was going on;
 * - `invalid-answer`: an answer, or a field of it, was refused;
 * - `unused-answer`: an answer is valid, and the caller had no use for it;
 * - `conflict`: two owners answered what has room for one;
 * - `late-rejection`: a handler failed after it had been given up;
 * - `missing-member`: an extension uses something that this host does not have, and goes on without it;
 * - `failed-act`: something an extension began, and does not wait for, failed;
 * - `refused-load`: an extension was not loaded;
 * - `unknown-hook`: a handler was registered for a hook that this host does not have.
 */
export type ReportKind =
  | "threw"
  | "timed-out"
  | "invalid-answer"
  | "unused-answer"
  | "conflict"
  | "late-rejection"
  | "missing-member"
  | "failed-act"
  | "refused-load"
  | "unknown-hook";

/** Something the user of extensions should hear about. Nothing is printed here; the host's `onReport` gets it. */
export interface ExtensionReport {
  readonly kind: ReportKind;
  /** Whom it is about; for a conflict first the one whose answer stands. */
  readonly owners: readonly string[];
  /** The name the handler was registered under; null where it is about loading. */
  readonly hook: string | null;
  /** One sentence or two, for people. */
  readonly message: string;
  /** What was thrown, where something was. */
  readonly error?: unknown;
}

export function reportThrown(registration: Registration, error: unknown): ExtensionReport {
  const { owner, hookName: hook } = registration;
  const message = `${owner} failed in ${hook}: ${describeThrown(error)}`;
  return { kind: "threw", owners: [owner], hook, message, error };
}

export function reportTimedOut(registration: Registration): ExtensionReport {
  const { owner, hookName: hook, timeoutMs } = registration;
  const message = `${owner} took longer than ${timeoutMs} ms in ${hook} and was given up; if it needs longer, it should register with a larger timeoutMs.`;
  return { kind: "timed-out", owners: [owner], hook, message };
}

export function reportLate(registration: Registration, error: unknown): ExtensionReport {
  const { owner, hookName: hook } = registration;
  const message = `${owner} failed in ${hook} after it had been given up: ${describeThrown(error)}`;
  return { kind: "late-rejection", owners: [owner], hook, message, error };
}

export function reportInvalid(registration: Registration, reason: string, error?: unknown): ExtensionReport {
  const { owner, hookName: hook } = registration;
  const message = `The answer of ${owner} to ${hook} was refused: ${reason}`;
  return {
    kind: "invalid-answer",
    owners: [owner],
    hook,
    message,
    ...(error === undefined ? {} : { error }),
  };
}

export function reportUnknownField(
  registration: Registration,
  field: string,
  known: readonly string[],
): ExtensionReport {
  const { owner, hookName: hook } = registration;
  const message = `${owner} answered ${hook} with "${field}", which is none of ${known.join(", ")}; the rest of its answer stands.`;
  return { kind: "invalid-answer", owners: [owner], hook, message };
}

export function reportConflict(
  hook: string,
  field: string,
  standing: string,
  refused: string,
): ExtensionReport {
  const message = `${standing} and ${refused} both answered ${hook} with "${field}"; that of ${standing} stands.`;
  return { kind: "conflict", owners: [standing, refused], hook, message };
}

export function reportUnknownHook(owner: string, hook: string): ExtensionReport {
  const message = `${owner} registered for "${hook}", a hook that does not exist here; that handler is never called.`;
  return { kind: "unknown-hook", owners: [owner], hook, message };
}

export function reportLateSetup(owner: string, error: unknown): ExtensionReport {
  const message = `The setup of ${owner} failed after it had been given up: ${describeThrown(error)}`;
  return { kind: "late-rejection", owners: [owner], hook: null, message, error };
}

/** For whoever loads extensions and goes on without the one that could not be loaded. */
export function reportRefusedLoad(owner: string, error: ExtensionError): ExtensionReport {
  return { kind: "refused-load", owners: [owner], hook: null, message: error.message, error };
}
