import { json } from "node:stream/consumers";
import { type CompactionPlan, type CompactionPreparation, generateSummary } from "@espalier/compaction";
import {
  type CommittedCompaction,
  type CompactionRequest,
  POLICY_NAMES,
  type PolicyComparison,
  type PolicyName,
} from "@espalier/engine";
import { type CacheForecast, cacheSentence } from "@espalier/engine/reading";
import { CHARS_PER_TOKEN, type ContextMessage, isRecord } from "@espalier/session-tree";
import { type AddCommand, type Answer, command, sessionCommand } from "../command.ts";
import { CommandError } from "../failure.ts";
import { formatChange, formatCount, formatMany, isWhole, numberParser } from "../numbers.ts";
import { readySummarizer } from "../opening.ts";
import { given } from "../options.ts";
import { interruptible } from "../progress.ts";
import { type Look, pick, type Shell } from "../shell.ts";
import { viewTable } from "../table.ts";
import { plainLine, plainText } from "../text.ts";

const parseTokens = numberParser(isWhole, "a whole number of tokens, for example 20000");

function requestOf({ policy, keepRecent }: { policy?: PolicyName; keepRecent?: number }): CompactionRequest {
  return { ...given({ policy }), settings: given({ keepRecentTokens: keepRecent }) };
}

function planAnswer(plan: CompactionPlan & { cache?: CacheForecast }, policy: string): Answer {
  const { eligible } = plan;
  if (!eligible) return { value: { eligible, reason: plan.reason }, lines: [plan.reason] };
  const value = {
    eligible,
    reason: null,
    policy,
    ...pick(plan, "firstKeptEntryId", "turnStartEntryId", "isSplitTurn", "tokensBefore", "tokensAfter"),
    history: plan.historyIds,
    turnPrefix: plan.turnPrefixIds,
    kept: plan.keptIds,
    ...pick(plan, "edits", "cache"),
  };
  return { value, lines: viewPlan(plan) };
}

/** Draws a planned compaction for people. */
export function* viewPlan(plan: CompactionPreparation & { cache?: CacheForecast }): Generator<string> {
  const { historyIds, turnPrefixIds, keptIds, firstKeptEntryId, turnStartEntryId, edits } = plan;
  const { tokensBefore, tokensAfter, previousSummary } = plan;
  yield `A compaction would reduce the context from ${formatCount(tokensBefore)} to about ${formatCount(tokensAfter)} tokens.`;
  const history = formatMany(historyIds.length, "message");
  yield `Summarized: ${history}${previousSummary ? ", into the existing summary" : ""}.`;
  if (turnStartEntryId !== null)
    yield `The cut is inside the turn that begins at ${plainLine(turnStartEntryId)}: its messages before the cut (${formatMany(turnPrefixIds.length, "message")}) are summarized separately.`;
  yield firstKeptEntryId === null
    ? "Kept unchanged: nothing."
    : `Kept unchanged: ${formatMany(keptIds.length, "message")} from ${plainLine(firstKeptEntryId)} on.`;
  if (edits.length > 0)
    yield `Left out or shortened to fit: ${formatMany(edits.length, "message")} after the first kept one.`;
  if (plan.cache) yield cacheSentence(plan.cache);
  // An extension may call a model, and a plan never does.
  yield "A plan does not run extensions. An extension can cancel or change the compaction, or write the summary.";
}

/** Draws a compaction and its summary for people. `tokens` is the size of the context by the session's count. */
function* viewCompaction(result: CommittedCompaction, tokens: number, { colours }: Pick<Shell, "colours">) {
  const { entryId, tokensBefore, tokensAfter, firstKeptEntryId, source, editIds, summary, missingSections } =
    result;
  yield colours.bold(`Compacted: ${formatChange(tokensBefore, tokensAfter)} tokens.`);
  const kept =
    firstKeptEntryId === entryId
      ? "nothing before it is kept"
      : `${plainLine(firstKeptEntryId)} and everything after it is kept`;
  yield colours.dim(`${plainLine(entryId)}, written by ${plainLine(source)}; ${kept}.`);
  if (missingSections)
    yield colours.dim(`The summary lacks required headings: ${missingSections.join(", ")}.`);
  if (editIds.length > 0)
    yield colours.dim(
      `${formatMany(editIds.length, "message")} after the first kept one ${editIds.length === 1 ? "was" : "were"} left out or shortened.`,
    );
  if (tokens !== tokensAfter)
    yield colours.dim(
      `This policy counts tokens in its own way. By the session's count, the model now reads ${formatCount(tokens)}.`,
    );
  yield "";
  yield plainText(summary);
}

export const policies = sessionCommand({
  usage: "policies <session>",
  description: "compare the effect of each compaction policy on a session; calls no model, writes nothing",
  notes: `Each policy counts tokens in its own way, so compare tokens only within a row. A call is one request to a summarizer.
\`written\` is the number of tokens that the next request writes to the prompt cache, as the provider counts. \`pays back\` is the
number of calls after which smaller requests have saved this cost.`,
  examples: ["espalier policies session.jsonl"],
  use: "plan",
  async run({ session, shell }) {
    const rows = session.comparePolicies();
    return { value: rows, lines: viewPolicies(rows, shell) };
  },
});

const HEADINGS = ["policy", "messages", "tokens", "summarized", "kept", "calls", "written", "pays back"];

/** Width from which all columns are drawn. Below it `kept` is left out, because it follows from `messages`. */
const ALL_CELLS = 90;

/** Draws one table with the effect of each policy on a session, for people. */
function* viewPolicies(policies: readonly PolicyComparison[], { colours, columns }: Look): Generator<string> {
  const shown = (cells: readonly string[]) =>
    cells.filter((_, column) => columns >= ALL_CELLS || HEADINGS[column] !== "kept");
  const rows = policies.map((policy) => shown(cellsOf(policy)));
  yield* viewTable(shown(HEADINGS), rows, { colours, columns });
  const idle = policies.filter(({ eligible }) => !eligible);
  if (idle.length > 0) yield "";
  for (const { policy, reason } of idle) yield colours.dim(plainLine(`${policy}: ${reason}`));
}

function cellsOf(row: PolicyComparison): string[] {
  const { policy, eligible, messagesBefore, messagesAfter, tokensBefore, tokensAfter, summarised, calls } =
    row;
  const { anew = 0, paysBackAfter = null } = row.cache ?? {};
  const change = (before: number, after: number) => formatChange(before, eligible ? after : null);
  const figures = [summarised, Math.max(0, messagesAfter - 1), calls].map(formatCount);
  return [
    policy,
    change(messagesBefore, messagesAfter),
    change(tokensBefore, tokensAfter),
    ...(eligible ? figures : figures.map(() => "-")),
    eligible ? formatCount(anew) : "-",
    paysBackAfter === null ? "-" : formatMany(paysBackAfter, "call"),
  ];
}

async function readMessages(): Promise<ContextMessage[]> {
  const input: unknown = await json(process.stdin).catch((cause: unknown) => {
    throw new CommandError("bad-input", 'Stdin is not JSON; give it {"messages": […]}.', { cause });
  });
  const messages = (input as { messages?: unknown } | null)?.messages;
  if (Array.isArray(messages) && messages.every(isMessageLike)) return messages;
  throw new CommandError("bad-input", 'Stdin is not {"messages": […]} with messages that have a role.');
}

const isMessageLike = (message: unknown): message is ContextMessage =>
  isRecord(message) && typeof message["role"] === "string";

/** Commands that write summaries. */
export const summaryCommands: readonly AddCommand[] = [
  sessionCommand({
    usage: "compact <session>",
    description: "replace the older part of the context with a summary; the entries stay in the file",
    options: [
      [
        "--policy <policy>",
        "compaction policy (default: the one in the settings, else token-budget)",
        POLICY_NAMES,
      ],
      ["--keep-recent <tokens>", "newest tokens that stay unchanged (default: 20,000)", parseTokens],
      ["--instructions <text>", "focus of the summary, in your words"],
      ["--dry-run", "print the plan; call no model and no extension, write nothing"],
    ],
    notes:
      "Claude writes the summary when ANTHROPIC_API_KEY is set; otherwise it is extracted from the messages.",
    examples: [
      "espalier compact session.jsonl --dry-run",
      'espalier compact session.jsonl --keep-recent 8000 --instructions "keep the open questions"',
      "espalier compact session.jsonl --policy message-count --dry-run",
      "espalier compact session.jsonl --summarizer extractive",
    ],
    use: ({ dryRun = false }) => (dryRun ? "plan" : "summarize"),
    async run({ session, shell, options }) {
      const { policy = session.policy.name, instructions, dryRun = false } = options;
      if (dryRun) return planAnswer(session.planCompaction(requestOf(options)), policy);
      const result = await interruptible(shell, "The compaction", (act) =>
        session.compact({ ...requestOf(options), ...(instructions ? { instructions } : {}), ...act }),
      );
      if (!result.eligible) return planAnswer(result, policy);
      const failed = result.source === "extractive" ? result.attempts?.at(-1) : undefined;
      if (failed)
        shell.complain(
          `The summary was extracted from the messages, because ${failed.name} wrote none: ${failed.message}`,
        );
      const sizes = pick(result, "entryId", "summary", "tokensBefore", "tokensAfter", "firstKeptEntryId");
      return {
        value: { ...sizes, ...pick(result, "source", "editIds", "missingSections") },
        lines: viewCompaction(result, session.context.tokens, shell),
      };
    },
  }),
  command({
    usage: "summarize",
    description: 'summarize the messages in {"messages": […]} from stdin',
    options: [["--instructions <text>", "focus of the summary, in your words"]],
    examples: ["espalier context session.jsonl --json | espalier summarize"],
    async run({ shell, options: { instructions } }) {
      const messages = await readMessages();
      const summarizer = await readySummarizer(shell);
      const answer = await interruptible(shell, "The summary", (act) =>
        generateSummary(messages, {
          ...act,
          summarizer,
          ...given({ customInstructions: instructions || undefined }),
        }),
      );
      const { text: summary, usage = null, source = summarizer.name } = answer;
      const tokens = Math.ceil(summary.length / CHARS_PER_TOKEN);
      return { value: { summary, tokens, usage, source }, lines: [plainText(summary)] };
    },
  }),
];
