import { CompactionError } from "@espalier/compaction";
import { type Usage, usage } from "@espalier/session-tree";
import { type Summarizer, SummarizerError, soundUsage } from "@espalier/summarizer";
import type { SessionState } from "./session-state.ts";

/** Who was asked for a summary; one who does not say which model he asks is billed by his own name. */
export type Asked = Pick<Summarizer, "name" | "model">;

/** For what a provider is asked, and who asks it. */
export interface BilledWork {
  /** The kind of the `usage` entry. */
  kind: "compaction" | "branch_summary";
  /** Who was asked, once it is known that something was billed for nothing. */
  asked: () => Asked;
}

/** The first of the extensions whose words a summary holds, as the one who was asked for it. */
export const ownerAsked = ([name = "extension"]: readonly string[] = []): Asked => ({ name });

/**
 * Does work that a provider may bill. What it bills stands in the entry that the work ends in; when there is none, in
 * a `usage` entry, which is then the only trace of the work (T9, T12).
 *
 * @param work calls `bill` with what was billed once that is known, or throws an error that carries it
 */
export async function accounted<Result>(
  session: SessionState,
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
  return error instanceof SummarizerError || error instanceof CompactionError ? error.usage : undefined;
}

/** Appends the `usage` entry for what was billed for nothing. */
export async function recordBill(
  { core }: SessionState,
  kind: BilledWork["kind"],
  { name, model = { provider: name, modelId: name } }: Asked,
  billed: Usage,
): Promise<void> {
  await core.append(
    usage.of({ kind, provider: model.provider, model: model.modelId, usage: soundUsage(billed) }),
  );
}
