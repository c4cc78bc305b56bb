import { type CompactionPlan, type CompactionPreparation, generateSummary } from "@espalier/compaction";
import {
  type CommittedCompaction,
  type CompactionRequest,
  POLICY_NAMES,
  type PolicyName,
  type Session,
} from "@espalier/engine";
import { CHARS_PER_TOKEN, type ContextMessage } from "@espalier/session-tree";
import { type Command, InvalidArgumentError, Option } from "commander";
import { CommandError } from "../failure.ts";
import { formatCount, formatMany } from "../numbers.ts";
import { planning, readySummarizer, summarizing } from "../opening.ts";
import { interruptible } from "../progress.ts";
import { print, type Shell } from "../shell.ts";
import { readStdin } from "../stdin-lines.ts";
import { plainLine, plainText } from "../text.ts";

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

/** What a compaction would do, for people. */
export function* viewPlan(plan: CompactionPreparation): Generator<string> {
  const { historyIds, turnPrefixIds, keptIds, firstKeptEntryId, turnStartEntryId, edits } = plan;
  const { tokensBefore, tokensAfter, previousSummary } = plan;
  yield `A compaction would bring the context from ${formatCount(tokensBefore)} to about ${formatCount(tokensAfter)} tokens.`;
  const history = formatMany(historyIds.length, "message");
  yield `Summarised: ${history}${previousSummary ? ", into the summary that stands there already" : ""}.`;
  if (turnStartEntryId !== null)
    yield `The cut is inside the turn that begins at ${plainLine(turnStartEntryId)}: what it has before the cut (${formatMany(turnPrefixIds.length, "message")}) is summarised beside it.`;
  yield firstKeptEntryId === null
    ? "Kept as it is: nothing."
    : `Kept as they are: ${formatMany(keptIds.length, "message")} from ${plainLine(firstKeptEntryId)} on.`;
  if (edits.length > 0)
    yield `Left out or shortened, to fit: ${formatMany(edits.length, "message")} behind the first that is kept.`;
  // An answer of theirs may ask a model, which a plan never does.
  yield "Extensions were not asked: they may refuse it, change it, or write the summary themselves.";
}

/** What a compaction did, for people, and the summary itself. `tokens` is what the model reads now, as trees tell it. */
function* viewCompaction(
  result: CommittedCompaction,
  tokens: number,
  { colours }: Pick<Shell, "colours">,
): Generator<string> {
  const { entryId, tokensBefore, tokensAfter, firstKeptEntryId, source, editIds, summary, missingSections } =
    result;
  yield colours.bold(`Compacted: ${formatCount(tokensBefore)} → ${formatCount(tokensAfter)} tokens.`);
  const kept =
    firstKeptEntryId === entryId
      ? "nothing before it is kept"
      : `${plainLine(firstKeptEntryId)} and what follows is kept`;
  yield colours.dim(`${plainLine(entryId)}, written by ${plainLine(source)}; ${kept}.`);
  if (missingSections)
    yield colours.dim(`The summary lacks headings that were asked for: ${missingSections.join(", ")}.`);
  if (editIds.length > 0)
    yield colours.dim(
      `${formatMany(editIds.length, "message")} behind the first that is kept ${editIds.length === 1 ? "was" : "were"} left out or shortened.`,
    );
  if (tokens !== tokensAfter)
    yield colours.dim(
      `This policy counts tokens in its own way; by the session's, the model reads ${formatCount(tokens)} now.`,
    );
  yield "";
  yield plainText(summary);
}

export function addSummarize(program: Command, shell: Shell): void {
  program
    .command("summarize")
    .description('summarise the messages in {"messages": […]} from stdin')
    .option("--instructions <text>", "what the summary shall attend to")
    .addHelpText(
      "after",
      `
Example:
  espalier context session.jsonl --json | espalier summarize`,
    )
    .action(async ({ instructions }: { instructions?: string }) => {
      const messages = await readMessages();
      const summarizer = await readySummarizer(shell);
      const answer = await interruptible(shell, "The summary", (act) =>
        generateSummary(messages, {
          ...act,
          summarizer,
          ...(instructions ? { customInstructions: instructions } : {}),
        }),
      );
      const { text: summary, usage = null, source = summarizer.name } = answer;
      const tokens = Math.ceil(summary.length / CHARS_PER_TOKEN);
      await print(shell, { summary, tokens, usage, source }, () => [plainText(summary)]);
    });
}

async function readMessages(): Promise<ContextMessage[]> {
  const given = parsed(String(await readStdin()));
  const messages = (given as { messages?: unknown } | null)?.messages;
  if (Array.isArray(messages) && messages.every(isMessageLike)) return messages;
  throw new CommandError("bad-input", 'Stdin is not {"messages": […]} with messages that have a role.');
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new CommandError("bad-input", 'Stdin is not JSON; give it {"messages": […]}.', { cause });
  }
}

const isMessageLike = (message: unknown): message is ContextMessage =>
  typeof message === "object" && message !== null && typeof (message as { role?: unknown }).role === "string";
