import type { CompactionPlan } from "@espalier/compaction";
import { type CompactionRequest, POLICY_NAMES, type PolicyName, type Session } from "@espalier/engine";
import { type Command, InvalidArgumentError, Option } from "commander";
import { interruptible } from "../interruptible.ts";
import { planning, summarizing } from "../opening.ts";
import { print } from "../print.ts";
import type { Shell } from "../shell.ts";
import { viewCompaction, viewPlan } from "../views/view-compaction.ts";

interface CompactOptions {
  policy?: PolicyName;
  keepRecent?: number;
  instructions?: string;
  dryRun?: boolean;
}

export function addCompact(program: Command, shell: Shell): void {
  program
    .command("compact <session>")
    .description("let a summary stand for the older part of the path; what it stands for stays in the file")
    .addOption(
      new Option("--policy <policy>", "what to keep (token-budget, unless settings say otherwise)").choices(
        POLICY_NAMES,
      ),
    )
    .option("--keep-recent <tokens>", "tokens that stay as they are (20,000 by default)", parseTokens)
    .option("--instructions <text>", "what the summary shall attend to")
    .option("--dry-run", "say what would be done; ask no model and no extension, write nothing")
    .addHelpText(
      "after",
      `
Claude writes the summary when ANTHROPIC_API_KEY is set; else it is made from the messages themselves.

Examples:
  espalier compact session.jsonl --dry-run
  espalier compact session.jsonl --keep-recent 8000 --instructions "keep the open questions"
  espalier compact session.jsonl --policy message-count --dry-run
  espalier compact session.jsonl --summarizer extractive`,
    )
    .action(async (ref: string, options: CompactOptions) => {
      const { instructions, dryRun = false } = options;
      if (dryRun)
        return planning(shell, ref, (session) =>
          printPlan(shell, session.planCompaction(requestOf(options)), policyOf(session, options)),
        );
      return summarizing(shell, ref, async (session) => {
        const result = await interruptible(shell, "The compaction", (act) =>
          session.compact({ ...requestOf(options), ...(instructions ? { instructions } : {}), ...act }),
        );
        if (!result.eligible) return printPlan(shell, result, policyOf(session, options));
        const { entryId, summary, tokensBefore, tokensAfter, firstKeptEntryId, source, editIds } = result;
        const { missingSections } = result;
        const missing = missingSections ? { missingSections } : {};
        const value = {
          entryId,
          summary,
          tokensBefore,
          tokensAfter,
          firstKeptEntryId,
          source,
          editIds,
          ...missing,
        };
        await print(shell, value, () => viewCompaction(result, session.context.tokens, shell));
      });
    });
}

function requestOf({ policy, keepRecent }: CompactOptions): CompactionRequest {
  return {
    ...(policy === undefined ? {} : { policy }),
    ...(keepRecent === undefined ? {} : { settings: { keepRecentTokens: keepRecent } }),
  };
}

const policyOf = (session: Session, { policy }: CompactOptions): string => policy ?? session.policy.name;

async function printPlan(shell: Shell, plan: CompactionPlan, policy: string): Promise<void> {
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
