import type { UsageTotals } from "@espalier/engine/reading";
import type { SpendingPoint } from "../../model/tree-reader.ts";
import type { SubAgentCost } from "../../server/open-sessions.ts";
import { formatAddress } from "../app/address.ts";
import { useViewer } from "../app/viewer.ts";
import { useAnswer } from "../source/observe.ts";
import { ask } from "../source/page-source.ts";
import { formatBill, formatDollars, formatMany, formatTime, formatTokens } from "../text/numbers.ts";

/** Panel of usage and cost of the session over time, and of its sub-agents. */
export function UsagePanel() {
  const { model, served } = useViewer();
  const { answer: stats, error } = useAnswer(() => model.reader.stats(), [model, model.rows.length]);
  const { answer: runs = [] } = useAnswer(
    async () => (served === undefined ? [] : ask<SubAgentCost[]>(`${served}/subagents`)),
    [served, model.rows.length],
  );
  if (error) return <p class="failure">{error.message}</p>;
  const { points } = model.spending ?? {};
  const last = points?.at(-1);
  if (!stats || !points) return <p class="quiet padded">Reading…</p>;
  const ofSubAgents = runs.map((run) => ({
    ...run,
    name: run.title,
    href: formatAddress({ session: run.key, tab: "usage" }),
  }));
  if (!last) {
    return (
      <div class="panel">
        <h2>Usage and cost</h2>
        <p class="quiet">No entry of this session says what a provider billed.</p>
        <Bills title="By sub-agent" bills={ofSubAgents} />
      </div>
    );
  }
  const { total, path, recordedCost } = stats;
  // Claude Code's own cost of a session already includes these sub-agents.
  const beside = runs.filter(({ isOfClaudeCode }) => recordedCost === null || !isOfClaudeCode);
  const ofRuns = runs.reduce((sum, { cost }) => sum + cost, 0);
  const whole = beside.reduce<Pick<UsageTotals, "cost" | "estimated">>(
    (sum, { cost, estimated }) => ({ cost: sum.cost + cost, estimated: sum.estimated + estimated }),
    total,
  );
  return (
    <div class="panel">
      <h2>Usage and cost</h2>
      <p class="quiet">
        {formatMany(total.calls, "call")} of models, over all branches; the path of the leaf cost{" "}
        {costText(path)}.
        {total.estimated > 0 ? " ≈ marks what was estimated from tokens and list prices." : ""}
        {recordedCost === null
          ? ""
          : " Claude Code recorded the cost of the session; it includes its sub-agents."}
      </p>
      <Facts
        facts={[
          ["Cost", costText(total)],
          ["Of sub-agents", runs.length > 0 ? formatDollars(ofRuns) || UNKNOWN : ""],
          ["With sub-agents", runs.length > 0 ? costText(whole) : ""],
          ["Read", `${formatTokens(last.input)} tokens`],
          ["From the cache", `${formatTokens(last.cached)} tokens`],
          ["Written", `${formatTokens(last.output)} tokens`],
        ]}
      />
      {last.cost > 0 && (
        <Plot
          title="Dollars"
          points={points}
          values={[{ name: "cost", colour: "accent", of: (point) => point.cost }]}
        />
      )}
      <Plot
        title="Tokens"
        points={points}
        values={[
          { name: "cached", colour: "user", of: (point) => point.cached },
          { name: "input", colour: "accent", of: (point) => point.input },
          { name: "output", colour: "summary", of: (point) => point.output },
        ]}
      />
      <Bills
        title="By model"
        bills={stats.models.map((bill) => ({ ...bill, name: `${bill.provider}/${bill.model}` }))}
      />
      <Bills
        title="By kind"
        bills={stats.kinds.map((bill) => ({ ...bill, name: bill.kind.replaceAll("_", " ") }))}
      />
      <Bills title="By sub-agent" bills={ofSubAgents} />
    </div>
  );
}

const UNKNOWN = "not known";

/** Formats a cost: `$1.20`, `≈ $1.20` if a part is estimated, or the text for an unknown cost. */
const costText = ({ cost, estimated }: Pick<UsageTotals, "cost" | "estimated">): string =>
  cost === 0 ? UNKNOWN : formatBill({ cost, estimated });

interface BillsProps {
  title: string;
  bills: readonly (Pick<UsageTotals, "calls" | "totalTokens" | "cost" | "estimated"> & {
    name: string;
    href?: string;
  })[];
}

function Bills({ title, bills }: BillsProps) {
  if (bills.length === 0) return null;
  return (
    <table class="bills">
      <caption>{title}</caption>
      <tbody>
        {bills.map(({ name, href, calls, totalTokens, cost, estimated }, at) => (
          <tr key={at}>
            <th scope="row">{href === undefined ? name : <a href={href}>{name}</a>}</th>
            <td>{formatMany(calls, "call")}</td>
            <td>{formatTokens(totalTokens)} tokens</td>
            <td>{formatBill({ cost, estimated })}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** List of names and values; an empty value is left out. */
export function Facts({ facts }: { facts: readonly (readonly [name: string, value: string])[] }) {
  return (
    <dl class="facts">
      {facts
        .filter(([, value]) => value !== "")
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

interface PlotProps {
  title: string;
  points: readonly SpendingPoint[];
  values: readonly { name: string; colour: string; of: (point: SpendingPoint) => number }[];
}

/** Width in units of the drawing, which is stretched to the available space. */
const WIDTH = 600;
const HEIGHT = 160;

function Plot({ title, points, values }: PlotProps) {
  const highest = Math.max(...values.map(({ of }) => of(points.at(-1)!)), Number.MIN_VALUE);
  const x = (at: number) => (points.length < 2 ? WIDTH : (at / (points.length - 1)) * WIDTH);
  const format = title === "Dollars" ? formatDollars : formatTokens;
  const [first, last] = [points[0]!, points.at(-1)!];
  return (
    <figure class="plot">
      <figcaption>
        {title}
        {values.length > 1 && (
          <span class="legend">
            {values.map(({ name, colour }) => (
              <span key={name}>
                <span class="swatch" style={{ background: `var(--${colour})` }} /> {name}
              </span>
            ))}
          </span>
        )}
        <span class="grow" />
        <b>{format(highest)}</b>
      </figcaption>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${title} over time, up to ${format(highest)}`}
      >
        {[0.25, 0.5, 0.75].map((share) => (
          <line key={share} class="grid" x1={0} x2={WIDTH} y1={HEIGHT * share} y2={HEIGHT * share} />
        ))}
        {values.map(({ name, colour, of }) => (
          <polyline
            key={name}
            style={{ stroke: `var(--${colour})` }}
            vector-effect="non-scaling-stroke"
            points={[
              `0,${HEIGHT}`,
              ...points.map(
                (point, at) => `${x(at).toFixed(1)},${(HEIGHT * (1 - of(point) / highest)).toFixed(1)}`,
              ),
            ].join(" ")}
          />
        ))}
      </svg>
      <div class="axis quiet">
        <span>{formatTime(first.timestamp)}</span>
        <span>{formatTime(last.timestamp)}</span>
      </div>
    </figure>
  );
}
