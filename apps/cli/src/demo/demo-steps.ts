import { CompactionError, type NothingToCompact } from "@espalier/compaction";
import { openSession, type Session } from "@espalier/engine";
import { branchSummary, FORMAT_VERSION, type SessionContext } from "@espalier/session-tree";
import { interruptible } from "../interruptible.ts";
import { formatCount, formatMany } from "../numbers.ts";
import { plainText } from "../plain-text.ts";
import type { Shell } from "../shell.ts";
import { cutToColumns } from "../text-columns.ts";
import { hiddenBy } from "../views/view-context.ts";
import { sessionHeading } from "../views/view-tree.ts";
import { contextOutline } from "./context-outline.ts";
import type { DemoPlace } from "./demo-place.ts";
import type { DemoStage } from "./demo-stage.ts";
import { screenfulTree } from "./screenful-tree.ts";
import { columnWidth, sideBySide } from "./side-by-side.ts";
import { sparkline } from "./sparkline.ts";

/** Lines of a summary that a step shows. */
const SUMMARY_LINES = 12;

const sizeOf = ({ messages, tokens }: SessionContext) => ({ messages: messages.length, tokens });

export async function showTree(stage: DemoStage, { colours }: Shell, session: Session): Promise<void> {
  await stage.show(
    "A session is a tree",
    "Every branch is a way it went; the bright one leads to the leaf (*).",
    { entries: session.tree.length, branches: session.branches().length, leafId: session.leafId },
    [...sessionHeading(session, colours), "", ...screenfulTree(session, colours, stage.columns)],
  );
}

export async function showContext(stage: DemoStage, session: Session): Promise<void> {
  const { context, leafId } = session;
  const hidden = hiddenBy(session, leafId, context);
  await stage.show(
    "The model reads one path of it",
    "Other branches are not in it; what a compaction stands for is a summary.",
    { leafId, ...sizeOf(context) },
    [...contextOutline(context, stage.columns - 1), ...(hidden ? ["", hidden] : [])],
  );
}

export async function showNavigation(stage: DemoStage, session: Session, place: DemoPlace): Promise<void> {
  const { leafId, header } = session;
  const wasOld = header !== undefined && header.version < FORMAT_VERSION;
  const before = session.context;
  const bytes = bytesOf(session);
  await session.navigate(place.id);
  const width = columnWidth(stage.columns);
  const grown = bytesOf(session) - bytes;
  await stage.show(
    `Go back to ${nameOf(place)}`,
    "That appends one line and removes nothing: the way back stays.",
    {
      from: leafId,
      to: session.leafId,
      before: sizeOf(before),
      after: sizeOf(session.context),
      bytesAppended: grown,
    },
    [
      ...sideBySide(
        { title: `before: ${leafId}`, lines: contextOutline(before, width) },
        { title: `after: ${session.leafId}`, lines: contextOutline(session.context, width) },
        stage.columns,
      ),
      "",
      wasOld
        ? "The copy had an old format: it was brought up to date first, and its first form is kept beside it."
        : `The file grew by ${formatMany(grown, "byte")}.`,
    ],
  );
  await session.undo();
}

export async function showSummary(
  stage: DemoStage,
  shell: Shell,
  session: Session,
  place: DemoPlace,
): Promise<void> {
  const without = session.contextAt(place.id);
  const arrival = await interruptible(shell, "The summary", (act) =>
    session.navigate(place.id, { summarize: true, ...act }),
  );
  const { context } = session;
  const width = columnWidth(stage.columns);
  const entry = arrival.summaryEntryId === null ? undefined : session.getEntry(arrival.summaryEntryId);
  const summary = entry && branchSummary.is(entry) ? entry.summary : "";
  await stage.show(
    "Go there again, and take along what was learnt",
    "The branch that is left is summarised here, so nothing is found out twice.",
    { summaryEntryId: arrival.summaryEntryId, without: sizeOf(without), with: sizeOf(context), summary },
    [
      ...sideBySide(
        { title: "without a summary", lines: contextOutline(without, width) },
        { title: "with it", lines: contextOutline(context, width) },
        stage.columns,
      ),
      "",
      ...beginningOf(summary, stage.columns),
    ],
  );
}

/** Steps that are built anew, too: to verify one costs as much as the path is long. */
const VERIFIED = 2_000;

const PROOF: Record<string, string> = {
  true: "each the same when it is built anew from scratch",
  false: "some of them different when they are built anew",
  null: "too many to build each anew here; `espalier replay --verify` does",
};

export async function showFork(
  stage: DemoStage,
  session: Session,
  place: DemoPlace,
  out: string | undefined,
): Promise<void> {
  const fork = await session.fork(place.id, out === undefined ? {} : { out });
  const copy = await openSession({ file: fork.file }, { mode: "read", store: session.store });
  try {
    await copy.load();
    const verify = copy.tree.length <= VERIFIED;
    const tokens: number[] = [];
    let differing = 0;
    for (const step of copy.replay({ verify })) {
      if (step.verified === false) differing++;
      tokens.push(step.contextTokens);
    }
    const steps = tokens.length;
    const verified = verify ? differing === 0 : null;
    await stage.show(
      "Fork there, and play the fork back",
      "A fork is a file of its own; played back, it shows how its context grew.",
      { file: fork.file, id: fork.id, leafId: fork.leafId, steps, verified },
      [
        `the fork    ${fork.file}`,
        `its size    ${formatMany(bytesOf(copy), "byte")} (the session it is from: ${formatCount(bytesOf(session))})`,
        `the context ${sparkline(tokens, Math.min(60, stage.columns - 40))}  ${formatCount(tokens.at(-1) ?? 0)} tokens`,
        `replayed    ${formatMany(steps, "step")}, ${PROOF[String(verified)]}`,
      ],
    );
  } finally {
    await copy.close();
  }
}

export async function showCompaction(stage: DemoStage, shell: Shell, session: Session): Promise<void> {
  // Back to where the session was before anybody went anywhere.
  await session.undo();
  const before = session.context;
  const keepRecentTokens = Math.min(20_000, Math.floor(before.tokens / 3));
  const result = await interruptible(shell, "The compaction", (act) =>
    session.compact({ settings: { keepRecentTokens }, ...act }).catch(notWorthIt),
  );
  const title = "Compact it";
  const notice = "A summary stands for the older part; that part itself stays in the file.";
  if (!result.eligible) {
    await stage.show(title, notice, { eligible: false, reason: result.reason }, [result.reason]);
    return;
  }
  const { entryId, summary, source, firstKeptEntryId } = result;
  const width = columnWidth(stage.columns);
  await stage.show(
    title,
    notice,
    { entryId, firstKeptEntryId, source, before: sizeOf(before), after: sizeOf(session.context), summary },
    [
      ...sideBySide(
        { title: "before", lines: contextOutline(before, width) },
        { title: `after (summary by ${source})`, lines: contextOutline(session.context, width) },
        stage.columns,
      ),
      "",
      ...beginningOf(summary, stage.columns),
    ],
  );
}

/** A session of a few words is no smaller as a summary; that is an answer here. */
function notWorthIt(error: unknown): NothingToCompact {
  if (error instanceof CompactionError && error.code === "no-smaller")
    return { eligible: false, reason: error.message };
  throw error;
}

/** Bytes of a session that was loaded. */
const bytesOf = ({ tree }: Session): number => tree.view.size;

const nameOf = ({ id, label }: DemoPlace): string => (label === undefined ? id : `“${plainText(label)}”`);

function beginningOf(summary: string, columns: number): string[] {
  const lines = plainText(summary)
    .split("\n")
    .filter((line) => line.trim() !== "");
  const shown = lines.slice(0, SUMMARY_LINES).map((line) => cutToColumns(line, columns - 3));
  const left = lines.length - shown.length;
  return [...shown, ...(left > 0 ? [`… ${formatMany(left, "more line")}`] : [])].map((line) => `  ${line}`);
}
