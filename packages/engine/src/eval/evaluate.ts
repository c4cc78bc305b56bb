// Comparison of policies and summarizers on recorded sessions. The result is the same on any machine: it depends on no
// time and no randomness.
import type { ContextMessage } from "@espalier/session-tree";
import { extractiveSummarizer, type Summarizer, summarizer } from "@espalier/summarizer";
import { POLICY_NAMES, type PolicyName } from "../compaction/policies.ts";
import {
  assignmentsIn,
  inventionsIn,
  priceOfNext,
  type RuleFigures,
  RuleWatch,
  refetchedTokens,
  valuesIn,
} from "./facts.ts";
import { type Candidate, Judge, type JudgedSession, type JudgeOptions } from "./judge.ts";
import { Examination, MEASURES } from "./measures.ts";
import {
  type Cuts,
  cutsOf,
  FEWEST_MESSAGES,
  playRounds,
  type Round,
  roundOf,
  rulesByCut,
  summarizedAtOnce,
} from "./rounds.ts";
import { meanOf, namesIn, ReadMessage, Transcript } from "./transcript.ts";

/** A session of an evaluation. */
export interface EvaluatedSession {
  name: string;
  /** Messages of a path, oldest first. System messages are not measured. */
  messages: readonly ContextMessage[];
}

/** Options of {@link evaluate}. */
export interface EvaluateOptions {
  /** Default: all. */
  policies?: readonly PolicyName[];
  /** Summarizers in addition to the extractive one and the controls. */
  summarizers?: readonly Summarizer[];
  /** Tokens that each compaction keeps. Default: 20,000; 6,000 for a session that is only a little longer. */
  keepTokens?: number;
  /** Model that judges the summaries of the real summarizers, in addition to the measures. Default: none. */
  judge?: JudgeOptions;
  /** Aborts the evaluation. Default: no signal. */
  signal?: AbortSignal;
  /** Called before each row. Default: none. */
  onProgress?: (done: number, total: number, what: string) => void;
}

/** Columns of the report. A floor or a ceiling can be set for each of them. */
export const COLUMNS = [
  ...MEASURES,
  /** Share of the current rules that the model still reads after the last round. */
  "rules",
  /** Share of the changed values that the summary has with their current value; `stale`: with an old value. */
  "current",
  "stale",
  /** Names and numbers that no message has, in one summary. */
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

/** Result of an evaluation: the means over the sessions, then each session. */
export interface Report {
  mean: readonly Row[];
  sessions: readonly SessionReport[];
  /** Judgements of a model; absent without a judge. */
  judged?: readonly JudgedSession[];
}

/** Measures how well policies and summarizers preserve sessions. Calls no model, except by a summarizer or a judge. */
export async function evaluate(
  sessions: readonly EvaluatedSession[],
  options: EvaluateOptions = {},
): Promise<Report> {
  const { policies = POLICY_NAMES, summarizers = [], onProgress = () => {} } = options;
  const writers = [extractiveSummarizer(), ...summarizers, ...CONTROLS];
  const total = sessions.length * (1 + writers.length * (1 + policies.length));
  const reports: SessionReport[] = [];
  const judge = options.judge && new Judge(options.judge, options.signal);
  const judged: JudgedSession[] = [];
  let done = 0;
  for (const session of sessions) {
    const begin = (what: string) => onProgress(done++, total, `${session.name}, ${what}`);
    const candidates: Candidate[] = [];
    const { report, material } = await evaluateSession(session, {
      ...options,
      policies,
      writers,
      begin,
      onRounds: (candidate) => candidates.push(candidate),
    });
    reports.push(report);
    if (!judge || !material) continue;
    onProgress(done, total, `${session.name}, the judge`);
    judged.push(await judge.judge(session.name, material.transcript, material.cuts, candidates));
  }
  return { mean: meanRows(reports), sessions: reports, ...(judge ? { judged } : {}) };
}

interface SessionOptions extends EvaluateOptions {
  policies: readonly PolicyName[];
  writers: readonly Summarizer[];
  begin: (what: string) => void;
  /** Receives the summaries of each summarizer that is not a control. */
  onRounds: (candidate: Candidate) => void;
}

async function evaluateSession(
  { name, messages }: EvaluatedSession,
  { policies, writers, keepTokens, signal, begin, onRounds }: SessionOptions,
): Promise<{ report: SessionReport; material?: { transcript: Transcript; cuts: Cuts } }> {
  const transcript = new Transcript(messages.filter(({ role }) => role !== "system"));
  const cuts = cutsOf(transcript, keepTokens);
  const facts = {
    session: name,
    messages: transcript.messages.length,
    tokens: transcript.messages.reduce((sum, message) => sum + message.tokens, 0),
    keepTokens: cuts.keepTokens,
  };
  if (cuts.cuts.length === 0)
    return { report: { ...facts, skipped: tooShort(facts), unmeasured: null, rows: [] } };
  const examine = await examinerOf(transcript, cuts);
  begin("identity at once");
  const whole = cuts.cuts.map((cut) =>
    roundOf(transcript, cut, identity(cut.summarized.map((at) => transcript.messages[at]!.message))),
  );
  const rows = [examine(whole, { policy: null, summarizer: "identity", isControl: true, problem: null })];
  for (const writer of writers) {
    const isControl = CONTROLS.includes(writer);
    for (const policy of [null, ...policies]) {
      begin(`${writer.name} ${policy === null ? "at once" : `under ${policy}`}`);
      const { rounds, problem } = await (policy === null
        ? summarizedAtOnce(transcript, cuts, writer, signal)
        : playRounds(transcript, cuts, policy, writer, signal));
      if (!isControl) onRounds({ policy, summarizer: writer.name, rounds });
      rows.push(examine(rounds, { policy, summarizer: writer.name, isControl, problem }));
    }
  }
  return {
    report: { ...facts, skipped: null, unmeasured: unmeasuredIn(rows), rows: sorted(rows, policies) },
    material: { transcript, cuts },
  };
}

function unmeasuredIn(rows: readonly Row[]): string | null {
  const written = rows.filter(({ isControl, rounds }) => !isControl && rounds > 0);
  const columns = (["reach", "prec"] as const).filter(
    (column) => written.length > 0 && written.every((row) => row[column] === null),
  );
  if (columns.length === 0) return null;
  return `There is no ${columns.join(" and no ")} (–): too few of its names are used again after the cuts.`;
}

function tooShort({
  messages,
  tokens,
  keepTokens,
}: Pick<SessionReport, "messages" | "tokens" | "keepTokens">): string {
  const hint = messages > FEWEST_MESSAGES ? " --keep-recent keeps less." : "";
  return `It is too short to cut: it has ${messages} messages with ${tokens.toLocaleString("en-US")} tokens, and a cut needs ${FEWEST_MESSAGES} messages before the newest ${keepTokens.toLocaleString("en-US")} tokens, which a compaction keeps.${hint}`;
}

/** Rows by policy, real summarizers first. */
function sorted(rows: readonly DetailedRow[], policies: readonly PolicyName[]): DetailedRow[] {
  const place = ({ policy }: Row) => (policy === null ? -1 : policies.indexOf(policy));
  return [...rows].sort((a, b) => Number(a.isControl) - Number(b.isControl) || place(a) - place(b));
}

/**
 * Returns a function that measures rounds into a row. The questions are the same for all summaries of the same
 * messages.
 */
async function examinerOf(transcript: Transcript, cuts: Cuts) {
  const rules = await rulesByCut(transcript, cuts);
  const assignments = assignmentsIn(transcript);
  const examinations = new Map<string, Examination>();
  const examinationOf = (round: Round) => {
    const key = `${round.now}:${round.kept.join(",")}`;
    const known = examinations.get(key) ?? new Examination(transcript, round);
    examinations.set(key, known);
    return known;
  };
  return (
    rounds: readonly Round[],
    facts: Pick<DetailedRow, "policy" | "summarizer" | "isControl" | "problem">,
  ): DetailedRow => {
    const watch = new RuleWatch();
    const all = new Set<string>();
    const measured = rounds.map((round) => {
      const { text, kept, contextTokens, point } = round;
      const at = cuts.cuts.findIndex((cut) => cut.point === point);
      watch.add(rules[at] ?? [], [text, ...kept.map((number) => transcript.messages[number]!.prose)]);
      const inventions = inventionsIn(text, transcript, round);
      for (const name of inventions) all.add(name);
      const { updated, current, stale } = valuesIn(text, assignments, round);
      return {
        ...examinationOf(round).measure(text),
        current: updated === 0 ? null : current / updated,
        stale: updated === 0 ? null : stale / updated,
        invented: inventions.length,
        refetch: refetchedTokens(text, transcript, round),
        price: priceOfNext(contextTokens, transcript, round),
      };
    });
    const ruleFigures = watch.figures;
    const { held, of } = ruleFigures;
    const rulesHeld = of === 0 || rounds.length === 0 ? null : held / of;
    return {
      ...facts,
      rounds: rounds.length,
      ...figuresOf((column) =>
        column === "rules" ? rulesHeld : meanOf(measured.map((round) => round[column])),
      ),
      ruleFigures,
      inventions: [...all].sort(),
    };
  };
}

/** Returns the figures of all columns, rounded to the digits that are the same on any machine. */
function figuresOf(figure: (column: Column) => number | null): Record<Column, number | null> {
  const rounded = (value: number | null) => value && Math.round(value * 10_000) / 10_000;
  return Object.fromEntries(COLUMNS.map((column) => [column, rounded(figure(column))])) as Record<
    Column,
    number | null
  >;
}

/** Returns the mean of each row over the sessions that have the row. */
function meanRows(reports: readonly SessionReport[]): Row[] {
  const first = reports.find(({ skipped }) => skipped === null);
  return (first?.rows ?? []).map(({ policy, summarizer, isControl }) => {
    const same = reports
      .flatMap(({ rows }) => rows)
      .filter((row) => row.policy === policy && row.summarizer === summarizer && row.rounds > 0);
    const rounds = same.reduce((sum, row) => sum + row.rounds, 0);
    const figures = figuresOf((column) => meanOf(same.map((row) => row[column])));
    return { policy, summarizer, isControl, rounds, ...figures };
  });
}

// Controls mark the ends of the scale for a real summarizer: all text, no text, the newest text, the most frequent names.

/** Maximum length of a control's summary in characters: 2,000 tokens. */
const ROOM = 8_000;

/** Text of all messages: no loss and no saving. */
const identity = (messages: readonly ContextMessage[]): string =>
  messages.map((message) => new ReadMessage(message).text).join("\n");

/** A summary without content. Only the blocks of the core are left. */
const empty: Summarizer = summarizer(() => "–", { name: "empty" });

/** Summarizes by the newest text of the messages. */
const newest: Summarizer = summarizer(
  ({ messages, previousSummary = "" }) => `${previousSummary}\n${identity(messages)}`.slice(-ROOM),
  { name: "newest" },
);

/** Summarizes by the most frequent names. */
const frequency: Summarizer = summarizer(
  ({ messages, previousSummary = "" }) => {
    const counts = new Map<string, number>();
    for (const message of [previousSummary, ...messages.map((one) => new ReadMessage(one).text)])
      for (const name of namesIn(message)) counts.set(name, (counts.get(name) ?? 0) + 1);
    let list = "";
    for (const [name] of [...counts].sort(([, a], [, b]) => b - a)) {
      if (list.length + name.length >= ROOM) break;
      list += `${name} `;
    }
    return list || "–";
  },
  { name: "frequency" },
);

/** Controls that every policy runs with. */
const CONTROLS: readonly Summarizer[] = [empty, newest, frequency];
