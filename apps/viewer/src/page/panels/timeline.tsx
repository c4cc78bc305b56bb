import { useEffect, useState } from "preact/hooks";
import {
  type ContextGrowth,
  sumTokens,
  TOKEN_KINDS,
  type TokenCounts,
  type TokenKind,
} from "../../model/context.ts";
import type { CacheBreakPoint } from "../../model/tree-reader.ts";
import { useViewer } from "../app/viewer.ts";
import { useAnswer } from "../source/observe.ts";
import { formatDollars, formatMany, formatTokens } from "../text/numbers.ts";

/** Assumed context window in tokens if the model's is unknown. */
export const ASSUMED_WINDOW = 200_000;

/** Milliseconds per step. */
const STEP = 120;
/** Maximum milliseconds to play a whole path: a longer path is played in larger steps. */
const LONGEST = 20_000;

/** The path over time: size of the context, effect of each compaction, and a slider that plays the path. */
export function Timeline() {
  const { model } = useViewer();
  const { answer: growth } = useAnswer(
    () => model.reader.growth(model.tip),
    [model, model.tip, model.rows.length],
  );
  const [plays, setPlays] = useState(false);
  const { path } = model;
  const at = Math.max(0, path.indexOf(model.selected));
  const step = path.length === 0 ? 0 : at + 1;
  useEffect(() => {
    if (!plays) return;
    const stride = Math.max(1, Math.ceil((path.length * STEP) / LONGEST));
    const timer = setTimeout(() => {
      const next = Math.min(path.length - 1, at + stride);
      if (next === at) setPlays(false);
      else model.select(path[next]!);
    }, STEP);
    return () => clearTimeout(timer);
  }, [plays, at, model, path]);
  const broken = path.flatMap((row, step) => {
    const found = model.breaks.get(row);
    return found ? [{ ...found, step }] : [];
  });
  const total = growth ? totalAt(growth, at) : 0;
  const window = growth?.window ?? ASSUMED_WINDOW;
  const share = Math.round((total / window) * 100);
  const said = `Step ${step} of ${path.length}, ${formatTokens(total)} tokens, ${share} % of the window`;
  return (
    <section class="timeline" aria-label="Replay">
      <div class="timeline-tools">
        <button
          type="button"
          disabled={path.length < 2}
          onClick={() => {
            if (!plays && at === path.length - 1) model.select(path[0]!);
            setPlays(!plays);
          }}
        >
          {plays ? "Pause" : "Replay"}
        </button>
        <output>
          <b>{growth ? formatTokens(total) : "…"}</b>
          <span class="wide-only"> tokens</span> · {growth ? share : "…"} % of {formatWindow(window)}
          {growth?.window === null && ", assumed"}
        </output>
        <span class="grow" />
        {broken.length > 0 && <CacheSummary broken={broken} />}
        <span class="quiet">
          step {step.toLocaleString("en")} of {path.length.toLocaleString("en")}
        </span>
      </div>
      <div class="timeline-chart">
        {growth && growth.points.length > 0 && (
          <GrowthChart growth={growth} window={window} at={at} broken={broken} />
        )}
        <input
          type="range"
          aria-label="Step of the session"
          aria-valuetext={said}
          min={0}
          max={Math.max(0, path.length - 1)}
          value={at}
          onInput={(event) => {
            setPlays(false);
            model.select(path[Number(event.currentTarget.value)]!);
          }}
        />
      </div>
    </section>
  );
}

const formatWindow = (tokens: number): string => formatTokens(tokens).replace(/\.0+(?=[kM]$)/, "");

function totalAt({ points }: ContextGrowth, at: number): number {
  const point = points.findLast((candidate) => candidate.at <= at);
  return point ? sumTokens(point.tokens) : 0;
}

type BrokenStep = CacheBreakPoint & { step: number };

/** Breaks of the prompt cache on the path: their total, and a menu that selects the entry that caused a break. */
function CacheSummary({ broken }: { broken: readonly BrokenStep[] }) {
  const { model } = useViewer();
  const tokens = broken.reduce((sum, one) => sum + one.tokens, 0);
  const dollars = formatDollars(broken.reduce((sum, one) => sum + one.cost, 0));
  return (
    <select
      class="cache-breaks"
      aria-label="Breaks of the prompt cache"
      value=""
      onChange={(event) => model.select(Number(event.currentTarget.value))}
    >
      <option value="" hidden>
        {formatMany(broken.length, "cache break")}: {formatTokens(tokens)} paid again
        {dollars && `, ${dollars}`}
      </option>
      {broken.map(({ row, brokenBy, step, cause, tokens: again, cost }) => (
        <option key={row} value={brokenBy}>
          step {step + 1}: {cause}, {formatTokens(again)} tokens {formatDollars(cost)}
        </option>
      ))}
    </select>
  );
}

interface GrowthChartProps {
  growth: ContextGrowth;
  window: number;
  at: number;
  broken: readonly BrokenStep[];
}

/** Height of the row for cache breaks, in units of the drawing. */
const LANE = 12;

/** Width in units of the drawing, which is stretched to the available space. */
const WIDTH = 1_000;
const HEIGHT = 100;

/** Number of cache breaks that can be told apart. More of them are drawn fainter, down to the least opacity. */
const DISTINCT = 150;
const FAINTEST = 0.1;

function GrowthChart({ growth, window, at, broken }: GrowthChartProps) {
  const { points, steps } = growth;
  const highest = points.reduce((most, { tokens }) => Math.max(most, sumTokens(tokens)), 1);
  // The line of the window is drawn when the context comes near it.
  const ceiling = Math.max(highest * 1.1, window <= highest * 2 ? window * 1.05 : 0);
  const x = (step: number) => (steps < 2 ? 0 : (step / (steps - 1)) * WIDTH);
  const y = (tokens: number) => HEIGHT - (tokens / ceiling) * HEIGHT;
  const stacks = points.map(({ at: step, tokens }) => {
    let sum = 0;
    return { x: x(step), tops: tokens.map((count) => (sum += count)) };
  });
  const areas = TOKEN_KINDS.map((kind, layer) => {
    const top = stacks.map((stack) => `${stack.x.toFixed(1)},${y(stack.tops[layer]!).toFixed(1)}`);
    const bottom = stacks.map(
      (stack) => `${stack.x.toFixed(1)},${y(layer === 0 ? 0 : stack.tops[layer - 1]!).toFixed(1)}`,
    );
    return { kind, path: `M${[...top, ...bottom.reverse()].join("L")}Z` };
  });
  return (
    <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      {areas.map(({ kind, path }) => (
        <path key={kind} style={{ fill: colourOf(kind) }} d={path} />
      ))}
      {window < ceiling && (
        <line
          class="window-line"
          x1={0}
          x2={WIDTH}
          y1={y(window)}
          y2={y(window)}
          vector-effect="non-scaling-stroke"
        />
      )}
      {broken.map(({ step }) => (
        <line
          key={step}
          class="cache-break"
          x1={x(step)}
          x2={x(step)}
          y1={HEIGHT - LANE}
          y2={HEIGHT}
          stroke-opacity={Math.max(FAINTEST, Math.min(1, DISTINCT / broken.length))}
          vector-effect="non-scaling-stroke"
        />
      ))}
      <line class="cursor" x1={x(at)} x2={x(at)} y1={0} y2={HEIGHT} vector-effect="non-scaling-stroke" />
    </svg>
  );
}

const colourOf = (kind: TokenKind): string => `var(--kind-${kind})`;

const NAMES: Readonly<Record<TokenKind, string>> = {
  summary: "summaries",
  system: "system",
  user: "user",
  answer: "answers",
  thinking: "thinking",
  call: "tool calls",
  result: "tool results",
  image: "images",
};

interface TokenBarProps {
  tokens: TokenCounts;
  /** Tokens of the whole bar: the context window of the model, or another maximum. A longer context is the whole bar. */
  window: number;
  /** True if a legend with the kinds is shown below. */
  named?: boolean;
}

/** Bar with the composition of a context. */
export function TokenBar({ tokens, window, named = false }: TokenBarProps) {
  const total = sumTokens(tokens);
  const whole = Math.max(total, window, 1);
  const parts = TOKEN_KINDS.map((kind, at) => ({ kind, count: tokens[at] ?? 0 })).filter(
    ({ count }) => count > 0,
  );
  return (
    <div class="token-bar">
      <div
        class="bar"
        role="img"
        aria-label={`${formatTokens(total)} of ${formatTokens(window)} tokens: ${parts
          .map(({ kind, count }) => `${NAMES[kind]} ${formatTokens(count)}`)
          .join(", ")}`}
      >
        {parts.map(({ kind, count }) => (
          <span key={kind} style={{ width: `${(count / whole) * 100}%`, background: colourOf(kind) }} />
        ))}
        {total > window && <span class="window-mark" style={{ left: `${(window / whole) * 100}%` }} />}
      </div>
      {named && (
        <ul class="legend">
          {parts.map(({ kind, count }) => (
            <li key={kind}>
              <span class="swatch" style={{ background: colourOf(kind) }} /> {NAMES[kind]}{" "}
              <b>{formatTokens(count)}</b>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
