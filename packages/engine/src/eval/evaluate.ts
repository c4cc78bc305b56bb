// Comparison of policies and summarizers on recorded sessions. The result is the same on any machine: it depends on no
// time and no randomness.
import type { Rule } from "@espalier/compaction";
import { POLICY_NAMES, type PolicyName } from "@espalier/compaction/policies";
import { type ContextMessage, formatMany, isFailedAnswer } from "@espalier/session-tree";
import {
  DEFAULT_ANTHROPIC_MODEL,
  extractiveSummarizer,
  pricesOf,
  type Summarizer,
  summarizer,
  type TokenPrices,
  unescapeText,
} from "@espalier/summarizer";
import { type Candidate, Judge, type JudgedSession, type JudgeOptions } from "./judge.ts";
import { Examination, nextOf, withoutTags } from "./measures.ts";
import {
  type DetailedRow,
  meanFigures,
  meanRows,
  type Report,
  type RuleFigures,
  type RuleRound,
  type SessionReport,
} from "./report.ts";
import { type Cuts, cutsOf, FEWEST_MESSAGES, playRounds, type Round, roundOf, rulesAt } from "./rounds.ts";
import { namesIn, ReadMessage, Transcript, tokensOf, wordsIn } from "./transcript.ts";

/** A session of an evaluation. */
export interface EvaluatedSession {
  name: string;
  /** Messages of a path, oldest first. System messages are not measured. */
  messages: readonly ContextMessage[];
}

/** Options of {@link evaluate}. */
export interface EvaluateOptions {
  /** Policies to compare. Default: all. */
  policies?: readonly PolicyName[];
  /** Summarizers in addition to the extractive one and the controls. */
  summarizers?: readonly Summarizer[];
  /** Tokens that each compaction keeps. Default: 20,000; 6,000 for a session that is only a little longer. */
  keepTokens?: number;
  /** Model that judges the summaries of the real summarizers, in addition to the measures. Default: none. */
  judge?: JudgeOptions;
  /** Aborts the evaluation. Default: no signal. */
  signal?: AbortSignal;
  /** Called before each row, and before each judgement. Default: none. */
  onProgress?: (done: number, total: number, what: string) => void;
}

/** Measures how well policies and summarizers preserve sessions. Calls no model, except by a summarizer or a judge. */
export async function evaluate(
  sessions: readonly EvaluatedSession[],
  options: EvaluateOptions = {},
): Promise<Report> {
  const { policies = POLICY_NAMES, summarizers = [], keepTokens, signal, onProgress = () => {} } = options;
  const writers = [extractiveSummarizer(), ...summarizers, ...CONTROLS];
  const total = sessions.length * (1 + writers.length * (1 + policies.length));
  const reports: SessionReport[] = [];
  const judge = options.judge && new Judge(options.judge, signal);
  const judged: JudgedSession[] = [];
  let done = 0;
  for (const { name: session, messages: all } of sessions) {
    const begin = (what: string) => onProgress(done++, total, `${session}, ${what}`);
    const transcript = new Transcript(all.filter(({ role }) => role !== "system"));
    const [messages, tokens] = [transcript.messages.length, tokensOf(transcript.messages)];
    const cuts = cutsOf(transcript, keepTokens);
    const facts = { session, messages, tokens, keepTokens: cuts.keepTokens };
    if (cuts.cuts.length === 0) {
      reports.push({ ...facts, skipped: tooShort(facts), unmeasured: null, rows: [] });
      continue;
    }
    const examine = examinerOf(transcript, cuts);
    begin("identity at once");
    const whole = cuts.cuts.map((cut) => roundOf(cut, cut.summarized.map(({ text }) => text).join("\n")));
    const rows = [examine(whole, { policy: null, summarizer: "identity", isControl: true, problem: null })];
    const candidates: Candidate[] = [];
    for (const writer of writers)
      for (const policy of [null, ...policies]) {
        begin(`${writer.name} ${policy === null ? "at once" : `under ${policy}`}`);
        const { rounds, problem } = await playRounds(cuts, policy, writer, signal);
        const named = { policy, summarizer: writer.name, isControl: CONTROLS.includes(writer) };
        if (!named.isControl) candidates.push({ ...named, rounds });
        rows.push(examine(rounds, { ...named, problem }));
      }
    reports.push({ ...facts, skipped: null, unmeasured: unmeasuredIn(rows), rows: sorted(rows, policies) });
    if (!judge) continue;
    onProgress(done, total, `${session}, the judge`);
    judged.push(await judge.judge(session, cuts, candidates));
  }
  return { mean: meanRows(reports), sessions: reports, ...(judge ? { judged } : {}) };
}

function unmeasuredIn(rows: readonly DetailedRow[]): string | null {
  const written = rows.filter(({ isControl, rounds }) => !isControl && rounds > 0);
  const columns = (["reach", "prec"] as const).filter(
    (column) => written.length > 0 && written.every((row) => row[column] === null),
  );
  if (columns.length === 0) return null;
  return `There is no ${columns.join(" and no ")} (–): too few of its names are used again after the cuts.`;
}

function tooShort(facts: Pick<SessionReport, "messages" | "tokens" | "keepTokens">): string {
  const { messages, tokens, keepTokens } = facts;
  const hint = messages > FEWEST_MESSAGES ? " --keep-recent keeps less." : "";
  return `It is too short to cut: it has ${formatMany(messages, "message")} with ${formatMany(tokens, "token")}, and a cut needs ${FEWEST_MESSAGES} messages before the newest ${keepTokens.toLocaleString("en-US")} tokens, which a compaction keeps.${hint}`;
}

/** Rows by policy, real summarizers first. */
function sorted(rows: readonly DetailedRow[], policies: readonly PolicyName[]): DetailedRow[] {
  const place = ({ policy }: DetailedRow) => (policy === null ? -1 : policies.indexOf(policy));
  return [...rows].sort((a, b) => Number(a.isControl) - Number(b.isControl) || place(a) - place(b));
}

/**
 * Returns a function that measures rounds into a row. The questions are the same for all summaries of the same
 * messages.
 */
function examinerOf(transcript: Transcript, { cuts }: Cuts) {
  const rules = new Map(cuts.map((cut) => [cut.point, rulesAt(cut)]));
  const assignments = assignmentsIn(transcript);
  const examinations = new Map<string, Examination>();
  const examinationOf = (round: Round) => {
    const key = `${round.now}:${round.kept.map(({ at }) => at).join(",")}`;
    const known = examinations.get(key) ?? new Examination(round);
    examinations.set(key, known);
    return known;
  };
  return (
    rounds: readonly Round[],
    facts: Pick<DetailedRow, "policy" | "summarizer" | "isControl" | "problem">,
  ): DetailedRow => {
    const ruleFigures = ruleFiguresOf(rounds, rules);
    const invented = rounds.map(inventionsIn);
    const measured = rounds.map((round, at) => ({
      ...examinationOf(round).measure(round.text),
      ...valuesIn(round, assignments),
      rules: ruleFigures.of === 0 ? null : ruleFigures.held / ruleFigures.of,
      invented: invented[at]!.length,
      refetch: refetchedTokens(round),
      price: priceOfNext(round),
    }));
    const inventions = [...new Set(invented.flat())].sort();
    return { ...facts, rounds: rounds.length, ...meanFigures(measured), ruleFigures, inventions };
  };
}

// Facts that a context keeps or loses when a summary replaces its older messages: rules, values, inventions, and the
// cost of later requests.

/** Counts the rules that apply at the end of each round, and those of them that the model then reads. */
function ruleFiguresOf(
  rounds: readonly Round[],
  rulesAtPoint: ReadonlyMap<number, readonly Rule[]>,
): RuleFigures {
  const followed = new Map<string, RuleRound>();
  const byRound = rounds.map(({ text: summary, kept, point }, at) => {
    const read = plain([summary, ...kept.map(({ prose }) => prose)].join("\n"));
    const rules = rulesAtPoint.get(point) ?? [];
    let held = 0;
    for (const { text, from, kind } of rules) {
      const key = `${from.entryId}:${from.start}`;
      const known = followed.get(key) ?? { text, stated: at + 1, fell: null };
      followed.set(key, known);
      // A summary quotes a refused call in its own form, in which the parts may be in several lines.
      if (isIn(read, text, kind === "refused")) held++;
      else known.fell ??= at + 1;
    }
    return { held, of: rules.length };
  });
  const { held, of } = byRound.at(-1) ?? { held: 0, of: 0 };
  return { held, of, byRound, fallen: [...followed.values()].filter(({ fell }) => fell !== null) };
}

/** Normalizes a text for comparison: without escapes, marks, capitals and runs of blanks. */
const plain = (text: string): string =>
  unescapeText(text)
    .toLowerCase()
    .replace(/[*_`"'“”‘’]/g, "")
    .replace(/[^\S\n]+/g, " ");

/** Minimum share of a rule's words that one line must have. */
const SHARE_OF_RULE = 0.8;

function isIn(read: string, rule: string, isAnywhere: boolean): boolean {
  const wanted = plain(rule).replace(/\s+/g, " ").trim();
  if (read.includes(wanted)) return true;
  const words = [...new Set(wordsIn(wanted))];
  if (words.length < 2) return false;
  // Only lines with the rule's longest word are checked.
  const longest = words.reduce((long, word) => (word.length > long.length ? word : long));
  return (isAnywhere ? [read] : read.split("\n")).some((line) => {
    if (!line.includes(longest)) return false;
    const has = new Set(wordsIn(line));
    return words.filter((word) => has.has(word)).length >= words.length * SHARE_OF_RULE;
  });
}

/** Pattern of an assignment: a name; `=`, `:`, `is now`, `is` or `to`; a number, `true`, `false` or a quoted text. */
const ASSIGNMENT =
  /(?<![\w.-])((?=\w{0,60}(?:_|[a-z][A-Z]|[A-Z]{4}))[A-Za-z_]\w{3,60}|port|timeout|version|level|region|branch)["']?[^\S\n]{0,2}(?:=|:|is now|is|to)[^\S\n]{0,2}(?:(true|false|\d[\w.:%]{0,30})|["'`]([^"'`\n]{1,40})["'`])/g;

/** Maximum number of characters of each message that are searched for values. */
const VALUES_READ = 200_000;

/** Returns the values that users and the agent wrote, in order. Output of tools is not included. */
function assignmentsIn(transcript: Transcript) {
  return transcript.messages.flatMap((message) => {
    if (message.role !== "user" && message.role !== "assistant") return [];
    const found = message.text.slice(0, VALUES_READ).matchAll(ASSIGNMENT);
    return Array.from(found, ([, key, plainValue, quoted]) => {
      const value = (plainValue ?? quoted ?? "").replace(/[.:]+$/, "");
      return { message, key: key!, value };
    });
  });
}

/**
 * Returns two shares of the values that had changed before the cut: `current`, those that the summary has with the
 * newest value; `stale`, those with only an older one. Null when no value had changed. Values in a kept message do not
 * count.
 */
function valuesIn({ text, now, kept }: Round, assignments: ReturnType<typeof assignmentsIn>) {
  const values = new Map<string, string[]>();
  for (const { message, key, value } of assignments) {
    if (message.at >= now) break;
    const known = values.get(key) ?? [];
    if (known.at(-1) !== value) values.set(key, [...known, value]);
  }
  const inSight = new Set(kept);
  for (const { message, key } of assignments) if (inSight.has(message)) values.delete(key);
  const updated = [...values].filter(([, told]) => new Set(told).size > 1);
  if (updated.length === 0) return { current: null, stale: null };
  const lines = text.split("\n");
  let [current, stale] = [0, 0];
  for (const [key, told] of updated) {
    const near = lines.filter((line) => line.includes(key));
    const tells = (value: string) => near.some((line) => hasValue(line, value));
    if (tells(told.at(-1)!)) current++;
    else if (told.some(tells)) stale++;
  }
  return { current: current / updated.length, stale: stale / updated.length };
}

function hasValue(line: string, value: string): boolean {
  for (let at = line.indexOf(value); at >= 0; at = line.indexOf(value, at + 1))
    if (!/[\w.]/.test(line[at - 1] ?? "") && !/\w/.test(line[at + value.length] ?? "")) return true;
  return false;
}

/** Words of the summarizing program itself: headings, and marks of omissions. */
const OWN_WORDS = /^#{1,6} .*$|^[A-Z][A-Z ]{8,60}:?$|\[…[^\]\n]*\]|\(\d+ (?:[a-z ]+ )?(?:left out|more)\)/gm;

/** Returns names, numbers and paths in a summary that no message before the cut has. */
function inventionsIn({ text, transcript, now }: Round): string[] {
  const said = unescapeText(withoutTags(text)).replace(OWN_WORDS, " ").replaceAll("…", " ");
  const numbers = said.match(/(?<![\w.,-])\d{2,12}(?:\.\d{1,6})?(?![\w.,-]*\w)/g) ?? [];
  const isThere = (name: string) => {
    const place = transcript.firstWith(name);
    return place >= 0 && place < now;
  };
  return [...new Set([...namesIn(said), ...numbers])]
    .filter((name) => !isThere(name) && !isThere(name.replace(/^(?:\.{1,2}\/|~\/|\/)+/, "")))
    .sort();
}

/**
 * Counts the tokens of the next calls' results that the summarized messages had and that neither the summary nor a kept
 * message has: the agent fetched them again. Each line counts once.
 */
function refetchedTokens(round: Round): number {
  const linesOf = (messages: readonly ReadMessage[]) => new Set(messages.flatMap(({ lines }) => lines));
  const [had, inSight] = [linesOf(round.summarized), linesOf(round.kept)];
  const results = nextOf(round).filter(({ role }) => role === "toolResult");
  const again = [...linesOf(results)].filter(
    (line) => had.has(line) && !inSight.has(line) && !round.text.includes(line),
  );
  return Math.ceil(again.reduce((sum, { length }) => sum + length + 1, 0) / 4);
}

/** Requests whose price is forecast. */
const NEXT_REQUESTS = 10;

/**
 * Returns the price in US dollars of the first ten recorded requests after this cut. The first one writes the whole
 * context to the prompt cache; each later one reads it from the cache and writes only new messages. System prompt and
 * tools are not included.
 */
function priceOfNext({ contextTokens, transcript, later }: Round): number {
  const prices = pricesIn(transcript);
  let [prompt, cached, requests, price] = [contextTokens, 0, 0, 0];
  for (const message of later) {
    if (message.role === "assistant" && !isFailedAnswer(message.message)) {
      const anew = prompt - cached;
      price += cached * prices.cacheRead + anew * prices.cacheWrite + message.tokens * prices.output;
      cached = prompt;
      if (++requests === NEXT_REQUESTS) break;
    }
    prompt += message.tokens;
  }
  return price / 1_000_000;
}

/** Returns the prices of the model that answered last; if they are unknown, those of the default model of summaries. */
function pricesIn(transcript: Transcript): Required<TokenPrices> {
  const answer = transcript.messages.findLast(({ role }) => role === "assistant")?.message;
  const { provider, model: modelId } = (answer ?? {}) as { provider?: unknown; model?: unknown };
  const model = typeof provider === "string" && typeof modelId === "string" ? { provider, modelId } : null;
  return pricesOf(model) ?? pricesOf({ provider: "anthropic", modelId: DEFAULT_ANTHROPIC_MODEL })!;
}

// Controls mark the ends of the scale for a real summarizer: all text, no text, the newest text, the most frequent names.

/** Maximum length of a control's summary in characters: 2,000 tokens. */
const ROOM = 8_000;

const textOf = (message: ContextMessage): string => new ReadMessage(message).text;

/** Controls that every policy runs with. */
const CONTROLS: readonly Summarizer[] = [
  // Without content: only the blocks of the core are left.
  summarizer(() => "–", { name: "empty" }),
  summarizer(
    ({ messages, previousSummary = "" }) =>
      [previousSummary, ...messages.map(textOf)].join("\n").slice(-ROOM),
    { name: "newest" },
  ),
  summarizer(
    ({ messages, previousSummary = "" }) => {
      const counts = new Map<string, number>();
      for (const text of [previousSummary, ...messages.map(textOf)])
        for (const name of namesIn(text)) counts.set(name, (counts.get(name) ?? 0) + 1);
      let list = "";
      for (const [name] of [...counts].sort(([, a], [, b]) => b - a)) {
        if (list.length + name.length >= ROOM) break;
        list += `${name} `;
      }
      return list || "–";
    },
    { name: "frequency" },
  ),
];
