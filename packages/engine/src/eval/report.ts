// Report of an evaluation: its columns and rows, as data.
import type { PolicyName } from "@espalier/compaction/policies";
import { formatCount } from "@espalier/session-tree";
import { formatCost } from "../reading/figures.ts";
import type { JudgedSession } from "./judge.ts";
import { MEASURES } from "./measures.ts";
import { CATEGORIES } from "./probes.ts";
import { meanOf } from "./transcript.ts";

/** Result of an evaluation: the means over the sessions, then each session. */
export interface Report {
  mean: readonly Row[];
  sessions: readonly SessionReport[];
  /** Judgements of a model; absent without a judge. */
  judged?: readonly JudgedSession[];
}

/** Columns of the report. A floor or a ceiling can be set for each of them. */
export const COLUMNS = [
  ...MEASURES,
  /** Share of the current rules that the model still reads after the last round. */
  "rules",
  /** Share of the changed values that the summary has with their current value; `stale`: only with an old value. */
  "current",
  "stale",
  /** Number of names and numbers in one summary that no message before the cut has. */
  "invented",
  /** Tokens of summarized results that the next calls fetched again. */
  "refetch",
  /** US dollars of the next ten requests. */
  "price",
] as const;

/** A column of the report. */
export type Column = (typeof COLUMNS)[number];

/** Means of the rounds of one policy and one summarizer; null when there is nothing to measure. */
export type Row = Readonly<Record<Column, number | null>> & {
  /** Null: all older messages were summarized at once, without a policy. */
  policy: PolicyName | null;
  summarizer: string;
  /** True for summarizers that only mark the ends of the scale. */
  isControl: boolean;
  /** Number of measured summaries. */
  rounds: number;
};

/** Figures of one session, and facts of the session. */
export interface SessionReport {
  session: string;
  messages: number;
  tokens: number;
  /** Tokens that each compaction kept. */
  keepTokens: number;
  /** Reason why the session was not measured; null when it was. */
  skipped: string | null;
  /** Sentence about the columns without a figure, because too few names are used again; null when there is none. */
  unmeasured: string | null;
  rows: readonly DetailedRow[];
}

/** A row and the data behind its figures. */
export type DetailedRow = Row & {
  ruleFigures: RuleFigures;
  inventions: readonly string[];
  /** Error message of a compaction that was refused; null when none was. */
  problem: string | null;
};

/** A rule of the user, and the first round after which the model no longer reads it. */
export interface RuleRound {
  text: string;
  /** First round at whose end the rule applies, from 1. */
  stated: number;
  /** First round after which the model does not read the rule, from 1; null when the model reads it after each. */
  fell: number | null;
}

/** Numbers of rules that are still valid, and of those that the model still reads. */
export interface RuleFigures {
  /** Rules that the model reads after the last round. */
  held: number;
  /** Rules that are valid after the last round. */
  of: number;
  /** `held` and `of` after each round. */
  byRound: readonly Pick<RuleFigures, "held" | "of">[];
  /** Valid rules that the model did not read after at least one round. */
  fallen: readonly RuleRound[];
}

/** Returns the mean of each column, rounded to the digits that are the same on any machine. */
export function meanFigures(rows: readonly Pick<Row, Column>[]): Pick<Row, Column> {
  const means = COLUMNS.map((column) => {
    const mean = meanOf(rows.map((row) => row[column]));
    return [column, mean && Math.round(mean * 10_000) / 10_000];
  });
  return Object.fromEntries(means);
}

/** Returns the mean of each row over the sessions that have the row. */
export function meanRows(reports: readonly SessionReport[]): Row[] {
  const first = reports.find(({ skipped }) => skipped === null);
  return (first?.rows ?? []).map(({ policy, summarizer, isControl }) => {
    const same = reports
      .flatMap(({ rows }) => rows)
      .filter((row) => row.policy === policy && row.summarizer === summarizer && row.rounds > 0);
    const rounds = same.reduce((sum, row) => sum + row.rounds, 0);
    return { policy, summarizer, isControl, rounds, ...meanFigures(same) };
  });
}

/** Returns a figure as people read it; a dash when there is none. */
export function figureText(column: Column, figure: number | null): string {
  if (figure === null) return "–";
  if (column === "tokens" || column === "refetch") return formatCount(Math.round(figure));
  if (column === "price") return formatCost(figure);
  return figure.toFixed(column === "invented" ? 1 : 2);
}

/** Returns a judgement as people read it: headings and cells of its scores, and the numbers of left-out questions. */
export const judgedTable = ({ rows, dropped }: JudgedSession) => ({
  headings: ["policy", "summarizer", "score", ...CATEGORIES, "next call"],
  lines: rows.map(({ policy, summarizer, score, categories, next }) => [
    policy ?? "at once",
    summarizer,
    ...[score, ...CATEGORIES.map((name) => categories[name]), next].map((share) => share?.toFixed(2) ?? "–"),
  ]),
  leftOut: `${dropped.unquoted} without a literal quotation, ${dropped.unreadable} unreadable, ${dropped.inTail} that the kept messages answer, ${dropped.ungraded} without an answer or a grade.`,
});
