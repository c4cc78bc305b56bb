import type { Line } from "./lines.ts";
import { type Facts, FOCUS, inheritedLines, inOtherBranch, share } from "./parts.ts";
import { LABELS } from "./previous.ts";
import { codeSpan, quote } from "./quotation.ts";
import type { CommandWork, FileWork, SessionRecord } from "./session.ts";

/** Of the room: for notes, for names and for commands. */
const NOTES_SHARE = 1 / 4;
const NAMES_SHARE = 1 / 3;
const COMMANDS_SHARE = 1 / 6;
const LONGEST_NAMES = 760;

/** What nothing but its own letters brings back: notes of earlier summaries, handles, files, names and commands, in this order. */
export function criticalLines(facts: Facts, told: string, room: number): Line[] {
  const files = fileLines(facts);
  const commands = commandLines(facts, told, room * COMMANDS_SHARE);
  const said = [told, ...[...files, ...commands].map(({ text }) => text)].join("\n");
  const names = nameLines(facts, said, Math.min(LONGEST_NAMES, room * NAMES_SHARE));
  const kinds = [noteLines(facts, room * NOTES_SHARE), handleLines(facts, told), files, names, commands];
  return kinds.flatMap((lines, kind) =>
    lines.map((line) => ({ ...line, order: kind * 10_000 + line.order })),
  );
}

/** Notes of earlier summaries in prose, the newest, and what branches were after. */
function noteLines({ previous, branches }: Facts, room: number): Line[] {
  const goals = branches.lines.goal.map(inOtherBranch);
  const notes = [...goals, ...branches.lines.critical, ...previous.lines.critical];
  return inheritedLines(fitting(notes.toReversed(), room).toReversed(), 2);
}

const HANDLES = 8;
const LONGEST_HANDLE = 160;

/** Handles named last, and those named most, each at the end of the words before it. */
function handleLines({ record, previous, focus }: Facts, told: string): Line[] {
  const known = new Map<string, { text: string; worth: number }>();
  for (const [index, text] of previous.handles.entries())
    known.set(text.split(" ").at(-1)!, { text, worth: index / (previous.handles.length * 2) });
  for (const { text, words, times, last } of record.handles.values()) {
    const worth = share(last, record) + 0.25 * Math.log1p(times) + (focus(words) ? FOCUS : 0);
    known.set(text, { text: `${words}${text}`, worth });
  }
  const chosen = [...known]
    .filter(([handle]) => !told.includes(handle))
    .sort(([, a], [, b]) => b.worth - a.worth)
    .slice(0, HANDLES)
    .map(([, { text }]) => quote(text, LONGEST_HANDLE));
  return listLines(LABELS.handles, chunked(chosen, "; "));
}

/** Texts joined to lines of at most 380 characters and `most` texts. */
function chunked(texts: readonly string[], separator: string, most = 5): string[] {
  const chunks: string[][] = [];
  for (const text of texts) {
    const chunk = chunks.at(-1);
    const length = chunk?.reduce((sum, { length: each }) => sum + each + separator.length, 0) ?? 0;
    if (chunk === undefined || chunk.length >= most || length + text.length > 380) chunks.push([text]);
    else chunk.push(text);
  }
  return chunks.map((chunk) => chunk.join(separator));
}

const CHANGED_FILES = 12;
const READ_FILES = 20;
const NAMES_OF_FILE = 6;

/** Scratch files: changed, but nothing that anyone comes back to. */
const TEMPORARY = /^(?:\/private)?\/(?:var\/)?tmp\//;

/** The files changed most and last with a few of their names, then files read. Paths stand as the calls wrote them. */
function fileLines(facts: Facts): Line[] {
  const { record, previous, branches } = facts;
  const files = new Map([...record.files].map(([path, file]) => [path, { ...file, names: [] as string[] }]));
  const inherited = [...branches.files, ...previous.files];
  const ages = new Map(inherited.map(({ path }, index) => [path, 0.5 - index / inherited.length / 2]));
  for (const { path, edits, names } of inherited) {
    const file = files.get(path);
    if (file !== undefined) Object.assign(file, { edits: file.edits + edits, created: false, names });
    else files.set(path, { path, reads: 1, edits, created: false, last: -1, failure: undefined, names });
  }
  // What an earlier summary has is older than all messages.
  const newness = ({ path, last }: FileWork) =>
    last < 0 ? ages.get(path)! : inherited.length === 0 ? share(last, record) : 0.5 + share(last, record) / 2;
  const worth = (file: FileWork) =>
    0.5 * Math.log1p(file.edits + file.reads) + 2 * newness(file) + (facts.focus(file.path) ? FOCUS : 0);
  const ranked = [...files.values()]
    .filter(({ path }) => !TEMPORARY.test(path))
    .sort((a, b) => worth(b) - worth(a) || (a.path < b.path ? -1 : 1));
  const changed = ranked.filter(({ edits }) => edits > 0).slice(0, CHANGED_FILES);
  const read = ranked.filter(({ edits }) => edits === 0).slice(0, READ_FILES);
  const shown = (path: string) => codeSpan(path, 200);
  const texts = [
    ...changed.map((file) => {
      const names = namesOf(file, record);
      return `${shown(file.path)} (${file.created ? "created, " : ""}changed ${file.edits}×)${names.length > 0 ? `: ${names.join(", ")}` : ""}`;
    }),
    ...chunked(
      read.map(({ path }) => shown(path)),
      ", ",
    ).map((text) => `${LABELS.used}${text}`),
  ];
  return texts.map((text, order) => ({ text, priority: -order, order }));
}

/** The names of a file that were written most and last. */
function namesOf(file: FileWork & { names: string[] }, record: SessionRecord): string[] {
  const used = [...record.names].filter(
    ([, { home, messages, last }]) => home === file.path && (messages > 1 || share(last, record) > NEW),
  );
  const worth = new Map(
    used.map(([name, use]) => [name, Math.log1p(use.messages) * (1 + share(use.last, record))]),
  );
  for (const [index, name] of file.names.entries()) worth.set(name, (worth.get(name) ?? 0) + 1 - index / 10);
  return [...worth]
    .sort((a, b) => b[1] - a[1])
    .slice(0, NAMES_OF_FILE)
    .map(([name]) => name);
}

/** The names written most and last that stand nowhere else: of flags, of settings, of what a program prints. */
function nameLines({ record, previous, focus }: Facts, told: string, room: number): Line[] {
  const worth = new Map(previous.names.map((name, index) => [name, 1 - index / previous.names.length / 2]));
  for (const [name, { messages, last }] of record.names) {
    const newness = share(last, record);
    if (messages > 1 || newness > NEW || worth.has(name))
      worth.set(
        name,
        (worth.get(name) ?? 0) + Math.log1p(messages) * (1 + newness) + (focus(name) ? FOCUS : 0),
      );
  }
  const each = ([name, value]: [string, number]) => value / (name.length + 8);
  const ranked = [...worth].filter(([name]) => !told.includes(name)).sort((a, b) => each(b) - each(a));
  const names = fitting(
    ranked.map(([name]) => name),
    room,
  );
  return listLines(LABELS.names, chunked(names, ", ", 40));
}

/** A name that was written once counts where this share of the messages is before it. */
const NEW = 0.8;

const listLines = (label: string, texts: readonly string[]) =>
  texts.map((text, order): Line => ({ text: `${label}${text}`, priority: -order, order }));

/** Those that fit into `room` characters, with two between them. */
function fitting(texts: readonly string[], room: number): string[] {
  let left = room;
  return texts.filter(({ length }) => {
    const fits = length + 2 <= left;
    if (fits) left -= length + 2;
    return fits;
  });
}

const COMMANDS = 6;

/** The commands run last and most that somebody would type again. */
function commandLines({ record, previous }: Facts, told: string, room: number): Line[] {
  const worth = ({ runs, last, reads }: CommandWork) =>
    share(last, record) * 2 + 0.3 * Math.log1p(runs) - (reads ? 1.5 : 0);
  const ranked = [...record.commands.values()]
    .filter((command) => command.line.length <= 160 && !command.once && (!command.reads || command.runs > 2))
    .sort((a, b) => worth(b) - worth(a));
  const texts = [...new Set([...ranked.map(({ line }) => line), ...previous.commands])]
    .map((line) => codeSpan(line, 160))
    .filter((span) => !told.includes(span))
    .slice(0, COMMANDS);
  return listLines(LABELS.commands, chunked(fitting(texts, room - LABELS.commands.length), ", "));
}
