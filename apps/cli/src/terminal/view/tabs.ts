import { DEFAULT_COMPACTION_SETTINGS } from "@espalier/compaction";
import {
  addBill,
  billedCallAt,
  CACHE_CAUSES,
  type CacheBreak,
  CacheReader,
  nothingBilled,
  type UsageTotals,
} from "@espalier/engine/reading";
import {
  buildSessionContext,
  compaction,
  estimateTokens,
  isFailedAnswer,
  pathRows,
  type Tree,
} from "@espalier/session-tree";
import { contextWindowOf } from "@espalier/summarizer";
import { hiddenBy } from "../../commands/context.ts";
import { sumOfBills } from "../../commands/costs.ts";
import { previewMessage } from "../../entry-preview.ts";
import { wrapText } from "../../markdown/markdown.ts";
import {
  formatBill,
  formatChange,
  formatCount,
  formatMany,
  formatShortCost,
  formatTime,
} from "../../numbers.ts";
import { cutToColumns, plainLine } from "../../text.ts";
import type { Pause } from "../effects/task.ts";
import { EMPTY, type Line, line, type Span, type Style, span } from "../screen/frame.ts";
import { kindOfRow, sizesOf, type TreeModel } from "../tree/tree-model.ts";

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

/** Width in columns of a number of tokens. */
const TOKENS_WIDTH = 8;
const ROLE_WIDTH = 8;

/** Draws a context: its share of the window, the entries that a compaction hides, then its messages, oldest first. */
export function contextLines(context: ReadContext, columns: number): Line[] {
  const { tokens, messages, model, thinkingLevel, hidden } = context;
  const { contextWindow: assumed, reserveTokens } = DEFAULT_COMPACTION_SETTINGS;
  const contextWindow = context.contextWindow ?? assumed;
  const whose = context.contextWindow === undefined ? "an assumed" : "the model's";
  const share = Math.round((tokens / contextWindow) * 100);
  const use = `${share} % of ${whose} window of ${formatCount(contextWindow)}; it is compacted above ${formatCount(contextWindow - reserveTokens)}`;
  const reader = [model, thinkingLevel === "off" ? null : `thinking ${thinkingLevel}`].filter(Boolean);
  return [
    line(
      span(`${formatMany(messages.length, "message")}, ${formatMany(tokens, "token")}`, "strong"),
      span(reader.length > 0 ? ` · ${reader.join(" · ")}` : "", "dim"),
    ),
    windowBar(messages, contextWindow, columns),
    ...wrapText(use, columns).map((text) => line(span(text, "dim"))),
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
  }),
);

/** Returns the name and style of a message's role. */
export const roleLook = (role: string) =>
  ROLES.get(role) ?? { title: plainLine(role), style: "plain" as const };

/** A sum of bills, and the tokens that were paid again after breaks of the prompt cache. */
type PathTotals = UsageTotals & { anew: number };

/** Cost of the sub-agents of a session. */
export interface SubAgentUsage {
  runs: number;
  total: UsageTotals;
}

/** Readers of cache ledgers by tree; they continue when a session grows. */
const ledgers = new WeakMap<Tree, CacheReader>();

async function breaksOf(tree: Tree, pause: Pause): Promise<Map<string, CacheBreak>> {
  const reader = ledgers.get(tree) ?? new CacheReader(tree);
  ledgers.set(tree, reader);
  while (reader.step()) await pause();
  return new Map(reader.ledger.breaks.map((one) => [one.call, one]));
}

/** Sums up the bills on the path of a row; pauses so that keys are handled. */
export async function readPathUsage(model: TreeModel, row: number, pause: Pause) {
  const { tree } = model;
  const total: PathTotals = { ...nothingBilled(), anew: 0 };
  /** Totals by purpose and model. */
  const groups = new Map<string, PathTotals & { kind: string; model: string }>();
  const compactions: ({ timestamp: string } & ReturnType<typeof sizesOf>)[] = [];
  const breaks: (CacheBreak & { timestamp: string })[] = [];
  const broken = await breaksOf(tree, pause);
  const rows = pathRows(tree, row);
  for (const at of rows) {
    const kind = kindOfRow(model, at);
    if (kind === "user" || kind === "toolResult") continue;
    await pause();
    const call = billedCallAt(tree, at);
    if (call) {
      const name = plainLine(`${call.provider}/${call.model}`);
      const key = `${call.kind} ${name}`;
      const none = { kind: plainLine(call.kind), model: name, ...nothingBilled(), anew: 0 };
      const group = groups.get(key) ?? none;
      groups.set(key, group);
      const { id, timestamp } = tree.entryAt(at);
      const found = broken.get(id);
      if (found) breaks.push({ ...found, timestamp });
      for (const sum of [group, total]) {
        addBill(sum, call.usage, call);
        sum.anew += found?.tokens ?? 0;
      }
    }
    const entry = kind === "compaction" ? tree.entryAt(at) : undefined;
    if (entry && compaction.is(entry)) compactions.push({ timestamp: entry.timestamp, ...sizesOf(entry) });
  }
  return {
    entries: rows.length,
    total,
    groups: [...groups.values()].sort((a, b) => b.cost - a.cost || b.totalTokens - a.totalTokens),
    compactions,
    breaks,
  };
}

/** Cost of the path to an entry, and the cost of the session's sub-agents once that cost has been read. */
type PathUsage = Awaited<ReturnType<typeof readPathUsage>> & { subAgents?: SubAgentUsage };

/** Indent of the second line of a break of the prompt cache. */
const BREAK_INDENT = 4;

export function usageLines(
  { entries, total, groups, compactions, breaks, subAgents }: PathUsage,
  columns: number,
): Line[] {
  const cut = (text: string) => cutToColumns(text, columns);
  const heading = line(
    span(`${formatMany(entries, "entry", "entries")} up to here`, "strong"),
    span(`, ${sizeOf(total)}`),
  );
  const ofSubAgents = subAgents ? subAgentLines(subAgents, total, columns) : [];
  if (total.calls === 0)
    return [heading, line(span("No entry on this path has a cost.", "dim")), ...ofSubAgents];
  return [
    heading,
    EMPTY,
    line(span(cut(row("", "calls", "input", "output", "cached", "paid again", "cost")), "dim")),
    ...groups.flatMap((group) => [
      line(span(cut(`${group.kind} by ${group.model}`), "model")),
      line(cut(totals("", group))),
    ]),
    line(span(cut(totals("all", total)), "strong")),
    ...ofSubAgents,
    ...(compactions.length > 0 ? [EMPTY, line(span("compactions", "summary"))] : []),
    ...compactions.map(({ timestamp, before, after }) =>
      line(cut(`  ${formatTime(timestamp)}  ${formatChange(before, after)} tokens`)),
    ),
    ...(breaks.length > 0 ? [EMPTY, line(span("breaks of the prompt cache", "summary"))] : []),
    ...breaks.flatMap(({ timestamp, tokens, cost, cause }) => {
      const text = `${formatTime(timestamp)}  ${formatCount(tokens)} tokens paid again ${formatShortCost(cost)}  ${CACHE_CAUSES[cause]}`;
      return wrapText(text, columns - BREAK_INDENT).map((part, at) =>
        line(" ".repeat(at === 0 ? 2 : BREAK_INDENT) + part),
      );
    }),
  ];
}

/** Draws the cost of the session's sub-agents, and the total with the path. */
function subAgentLines({ runs, total }: SubAgentUsage, ofPath: UsageTotals, columns: number): Line[] {
  const whole = formatBill(sumOfBills([ofPath, total]));
  return [
    EMPTY,
    line(
      span(`${formatMany(runs, "sub-agent")} of the session`, "summary"),
      span(cutToColumns(`: ${sizeOf(total)}`, columns)),
    ),
    line(span(cutToColumns(`with this path: ${whole}`, columns), "strong")),
  ];
}

const sizeOf = (bill: UsageTotals): string =>
  `${formatMany(bill.calls, "call")}, ${formatMany(bill.totalTokens, "token")}, ${formatBill(bill)}`;

function totals(name: string, sum: PathTotals): string {
  const { calls, input, output, cacheRead, cacheWrite, anew } = sum;
  return row(name, ...[calls, input, output, cacheRead + cacheWrite, anew].map(formatCount), formatBill(sum));
}

const row = (name: string, ...cells: readonly string[]): string =>
  `  ${name.padEnd(4)}${cells.map((cell) => cell.padStart(11)).join("")}`;
