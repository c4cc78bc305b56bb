// What was measured, for people.

/** One line of the table and its rows. */
export function tableOf(/** @type {string} */ title, /** @type {import("./line.mjs").Row[]} */ rows) {
  const parts = [`\n${title}`];
  for (const { work, unit, figures, goals } of rows) {
    const shown = Object.entries(figures)
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => `${name} ${numberText(value)} ${unit}`);
    parts.push(`  ${work}: ${shown.join(", ")}`);
    for (const goal of goals)
      parts.push(
        `    ${mark(goal)} ${goal.text}${goal.value === null ? "" : ` (${numberText(goal.value)})`}`,
      );
  }
  return parts.join("\n");
}

/** How many goals hold. */
export function verdictOf(/** @type {{ rows: import("./line.mjs").Row[] }[]} */ lines) {
  const goals = lines
    .flatMap(({ rows }) => rows.flatMap((row) => row.goals))
    .filter(({ isStretch }) => !isStretch);
  const count = (holds) => goals.filter((goal) => goal.holds === holds).length;
  return `\n${count(true)} goals hold, ${count(false)} do not, ${count(null)} were not measured.`;
}

function mark({ holds, isStretch }) {
  if (holds === null) return "?";
  if (holds) return "✓";
  return isStretch ? "·" : "✗";
}

/** Three digits that count. */
export function numberText(/** @type {number} */ value) {
  if (value >= 100) return Math.round(value).toLocaleString("en");
  return `${Number(value.toPrecision(3))}`;
}
