import { DEFAULT_COMPACTION_SETTINGS } from "@espalier/compaction";
import { buildSessionContext, estimateTokens, isFailedAnswer, type Tree } from "@espalier/session-tree";
import { contextWindowOf } from "@espalier/summarizer";
import { hiddenBy } from "../../commands/context.ts";
import { previewMessage } from "../../entry-preview.ts";
import { wrapText } from "../../markdown/markdown.ts";
import { formatCount, formatMany } from "../../numbers.ts";
import { cutToColumns, plainLine } from "../../text.ts";
import { EMPTY, type Line, line, type Span, type Style, span } from "../screen/frame.ts";

/** Reads the context at an entry, reduced to what a screen shows. */
export function readContext(tree: Tree, entryId: string) {
  const context = buildSessionContext(tree, entryId);
  return {
    tokens: context.tokens,
    model: context.model ? plainLine(`${context.model.provider}/${context.model.modelId}`) : null,
    /** Context window of the model in tokens; undefined if unknown. */
    contextWindow: contextWindowOf(context.model),
    thinkingLevel: plainLine(context.thinkingLevel),
    /** Number of entries that a compaction hides from the model, in one sentence. */
    hidden: hiddenBy({ tree }, entryId, context),
    messages: context.messages.map((said) => ({
      role: said.role,
      tokens: estimateTokens(said),
      gist: previewMessage(said),
      /** False for an entry that is in the file but left out of requests. */
      isSent: !isFailedAnswer(said) && !(said.role === "bashExecution" && said.excludeFromContext),
    })),
  };
}

type ReadContext = ReturnType<typeof readContext>;

/** Context window in tokens if the model's is unknown. */
const ASSUMED_WINDOW = DEFAULT_COMPACTION_SETTINGS.contextWindow;

/** Width in columns of a number of tokens. */
const TOKENS_WIDTH = 8;
const ROLE_WIDTH = 8;

/**
 * Draws a context: its share of the window, the entries that a compaction hides, then one line per message, oldest
 * first.
 */
export function contextLines(context: ReadContext, columns: number): Line[] {
  const { tokens, messages, model, thinkingLevel, hidden } = context;
  const { reserveTokens } = DEFAULT_COMPACTION_SETTINGS;
  const contextWindow = context.contextWindow ?? ASSUMED_WINDOW;
  const whose = context.contextWindow === undefined ? "an assumed" : "the model's";
  const share = Math.round((tokens / contextWindow) * 100);
  const reader = [model, thinkingLevel === "off" ? null : `thinking ${thinkingLevel}`].filter(Boolean);
  return [
    line(
      span(`${formatMany(messages.length, "message")}, ${formatMany(tokens, "token")}`, "strong"),
      span(reader.length > 0 ? ` · ${reader.join(" · ")}` : "", "dim"),
    ),
    windowBar(messages, contextWindow, columns),
    ...wrapText(
      `${share} % of ${whose} window of ${formatCount(contextWindow)}; it is compacted above ${formatCount(contextWindow - reserveTokens)}`,
      columns,
    ).map((text) => line(span(text, "dim"))),
    ...(hidden ? wrapText(hidden, columns).map((text) => line(span(text, "summary"))) : []),
    EMPTY,
    ...messages.map((one) => messageLine(one, columns)),
  ];
}

function messageLine({ role, tokens, gist, isSent }: ReadContext["messages"][number], columns: number): Line {
  const { title, style } = roleLook(role);
  const room = columns - TOKENS_WIDTH - ROLE_WIDTH - 3;
  return line(
    span(formatCount(tokens).padStart(TOKENS_WIDTH), "dim"),
    span(`  ${title.slice(0, ROLE_WIDTH).padEnd(ROLE_WIDTH)} `, style),
    span(cutToColumns(isSent ? gist : `(not sent) ${gist}`, Math.max(1, room)), isSent ? "plain" : "dim"),
  );
}

/** Draws the window as a bar: tokens by role, and `│` where a compaction begins. */
function windowBar(messages: ReadContext["messages"], contextWindow: number, columns: number): Line {
  const { reserveTokens } = DEFAULT_COMPACTION_SETTINGS;
  const total = messages.reduce((sum, { tokens }) => sum + tokens, 0);
  const width = Math.max(10, Math.min(columns - 2, 100));
  const scale = width / Math.max(contextWindow, total);
  const spans: Span[] = [];
  let tokens = 0;
  let used = 0;
  for (const { role, tokens: own } of messages) {
    tokens += own;
    // A small amount still gets one column, so that it is visible.
    const end = Math.max(Math.round(tokens * scale), tokens > 0 ? 1 : 0);
    if (end <= used) continue;
    const { style } = roleLook(role);
    spans.push(span((style === "summary" ? "▓" : "█").repeat(end - used), style));
    used = end;
  }
  const limit = Math.round((contextWindow - reserveTokens) * scale);
  const empty = Array.from({ length: width - used }, (_, at) => (used + at === limit ? "│" : "░"));
  return { spans: [...spans, span(empty.join(""), "dim")] };
}

/** Names of at most seven characters, and styles. */
const ROLES = new Map(
  Object.entries<{ title: string; style: Style }>({
    user: { title: "you", style: "user" },
    assistant: { title: "model", style: "model" },
    toolResult: { title: "tool", style: "tool" },
    bashExecution: { title: "shell", style: "tool" },
    compactionSummary: { title: "summary", style: "summary" },
    branchSummary: { title: "branch", style: "summary" },
    compaction: { title: "summary", style: "summary" },
    branch_summary: { title: "summary", style: "summary" },
  }),
);

/** Returns the name and style of a message's role, or of a summary. */
export const roleLook = (role: string) =>
  ROLES.get(role) ?? { title: plainLine(role), style: "plain" as const };
