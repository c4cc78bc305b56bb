import type { Session } from "@espalier/engine";
import {
  branchSummary,
  compaction,
  type DrawOptions,
  drawTreeLines,
  type Entry,
  message,
  tipRows,
} from "@espalier/session-tree";
import { previewEntry } from "../entry-preview.ts";
import { formatMany } from "../numbers.ts";
import { fieldText, plainLine } from "../plain-text.ts";
import type { Colours, Shell } from "../shell.ts";

export interface ViewTreeOptions {
  /** A line for every entry. */
  all?: boolean;
  /** Rails of - and | alone. */
  ascii?: boolean;
}

/** Entries in a row in which nothing stands out, beyond which they become one line. */
const FOLD = 2;

/** Ids of other programs can be long; so much of one names it. */
const ID_LENGTH = 12;

/** A session for people: what it is, its tree, and what the model reads at the leaf. */
export function* viewTree(
  session: Session,
  { colours, columns }: Pick<Shell, "colours" | "columns">,
  options: ViewTreeOptions = {},
): Generator<string> {
  yield* sessionHeading(session, colours);
  yield "";
  yield* treeLines(
    session,
    colours,
    { width: columns, ...(options.all ? {} : { fold: FOLD }) },
    options.ascii,
  );
}

/** Two lines that say which session this is, and how large. */
export function* sessionHeading(session: Session, colours: Colours): Generator<string> {
  const { tree, name, header, context } = session;
  const title = plainLine(name ?? (header?.id || "A session without a name"));
  yield `${colours.bold(title)} ${colours.dim(plainLine(header?.cwd ?? ""))}`.trimEnd();
  const facts = [
    formatMany(tree.length, "entry", "entries"),
    formatMany(tipRows(tree).length, "branch", "branches"),
    `the model reads ${formatMany(context.messages.length, "message")}, ${formatMany(context.tokens, "token")}`,
  ];
  yield colours.dim(facts.join(" · "));
}

/** The tree itself, in the colours of the command line. */
export function treeLines(
  session: Session,
  colours: Colours,
  options: DrawOptions,
  ascii = false,
): Iterable<string> {
  const rails = ascii ? asciiRails : (text: string) => text;
  return drawTreeLines(session, {
    describe: describeEntry,
    ...options,
    colours: {
      active: (text) => text,
      dim: (text) => colours.dim(rails(text)),
      summary: colours.magenta,
      label: colours.yellow,
      leaf: (text) => colours.bold(colours.green(text)),
    },
  });
}

function describeEntry(entry: Entry): string {
  const id = entry.id.length > ID_LENGTH ? entry.id.slice(0, ID_LENGTH) : entry.id;
  return `${id} ${kindName(entry)}  ${previewEntry(entry) ?? ""}`.trimEnd();
}

/** What a person calls this kind of entry. */
function kindName(entry: Entry): string {
  if (message.is(entry)) return entry.message.role;
  if (compaction.is(entry)) return "compaction";
  if (branchSummary.is(entry))
    return `summary of ${fieldText(entry.fromId).slice(0, ID_LENGTH) || "a branch"}`;
  return entry.type;
}

/** The lines of a drawing in characters that every terminal has. */
function asciiRails(text: string): string {
  return text
    .replace(/^[│├─ ]+/, (rails) => rails.replaceAll("│", "|").replaceAll("├", "+").replaceAll("─", "-"))
    .replace("…", "...");
}
