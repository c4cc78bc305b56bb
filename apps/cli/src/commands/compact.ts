import type { CompactionPlan } from "@espalier/compaction";
import { tokenBudget } from "@espalier/compaction";
import type { CompactionRequest } from "@espalier/engine";
import { type Command, InvalidArgumentError, Option } from "commander";
import { interruptible } from "../interruptible.ts";
import { reading, summarizing } from "../opening.ts";
import { print } from "../print.ts";
import type { Shell } from "../shell.ts";
import { viewCompaction, viewPlan } from "../views/view-compaction.ts";

const POLICIES = { [tokenBudget.name]: tokenBudget };

interface CompactOptions {
  policy: string;
  keepRecent?: number;
  instructions?: string;
  dryRun?: boolean;
}

export function addCompact(program: Command, shell: Shell): void {
  program
    .command("compact <session>")
    .description("let a summary stand for the older part of the path; what it stands for stays in the file")
    .addOption(
      new Option("--policy <policy>", "what to keep")
        .choices(Object.keys(POLICIES))
        .default(tokenBudget.name),
    )
    .option("--keep-recent <tokens>", "tokens that stay as they are (20,000 by default)", parseTokens)
    .option("--instructions <text>", "what the summary shall attend to")
    .option("--dry-run", "say what would be done; ask no model, write nothing")
    .addHelpText(
      "after",
      `
Claude writes the summary when ANTHROPIC_API_KEY is set; else it is made from the messages themselves.

Examples:
  espalier compact session.jsonl --dry-run
  espalier compact session.jsonl --keep-recent 8000 --instructions "keep the open questions"
  espalier compact session.jsonl --summarizer extractive`,
    )
    .action(async (ref: string, options: CompactOptions) => {
      const { instructions, dryRun = false } = options;
      if (dryRun)
        return reading(shell, ref, (session) =>
          printPlan(shell, session.planCompaction(requestOf(options)), options),
        );
      return summarizing(shell, ref, async (session) => {
        const result = await interruptible(shell, "The compaction", (act) =>
          session.compact({ ...requestOf(options), ...(instructions ? { instructions } : {}), ...act }),
        );
        if (!result.eligible) return printPlan(shell, result, options);
        const { entryId, summary, tokensBefore, tokensAfter, firstKeptEntryId, source, editIds } = result;
        const value = { entryId, summary, tokensBefore, tokensAfter, firstKeptEntryId, source, editIds };
        await print(shell, value, () => viewCompaction(result, shell));
      });
    });
}

function requestOf({ policy, keepRecent }: CompactOptions): CompactionRequest {
  return {
    policy: POLICIES[policy]!,
    ...(keepRecent === undefined ? {} : { settings: { keepRecentTokens: keepRecent } }),
  };
}

async function printPlan(shell: Shell, plan: CompactionPlan, { policy }: CompactOptions): Promise<void> {
  const { eligible } = plan;
  if (!eligible) {
    await print(shell, { eligible, reason: plan.reason }, () => [plan.reason]);
    return;
  }
  const { firstKeptEntryId, turnStartEntryId, isSplitTurn, tokensBefore, tokensAfter, edits } = plan;
  const value = {
    eligible,
    reason: null,
    policy,
    firstKeptEntryId,
    turnStartEntryId,
    isSplitTurn,
    tokensBefore,
    tokensAfter,
    history: plan.historyIds,
    turnPrefix: plan.turnPrefixIds,
    kept: plan.keptIds,
    edits,
  };
  await print(shell, value, () => viewPlan(plan));
}

function parseTokens(text: string): number {
  const tokens = Number(text);
  if (Number.isInteger(tokens) && tokens >= 0) return tokens;
  throw new InvalidArgumentError("It is a whole number of tokens: 20000.");
}
