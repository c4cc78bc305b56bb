import { existsSync, statSync } from "node:fs";
import { basename, resolve } from "node:path";
import {
  type HistoryHit,
  historyOf,
  type ListedSession,
  type ListOptions,
  listSessions,
  type SearchHit,
  type SearchOptions,
  searchSessions,
} from "@espalier/engine";
import type { Command } from "commander";
import { CommandError } from "../failure.ts";
import { formatAge, formatBytes, formatTime, parseCount } from "../numbers.ts";
import { reading, storeOf, tellSkipped } from "../opening.ts";
import { jsonLine, printLine, printLines, printStep, type Shell } from "../shell.ts";
import { cutLine, cutToColumns, plainLine, plainText } from "../text.ts";

export function addList(program: Command, shell: Shell): void {
  program
    .command("list [folder]")
    .description("list sessions, newest first: of a folder, or Espalier's and the Pi coding agent's own")
    .option("--sub-agents", "also the runs of sub-agents")
    .option("--parent <id>", "only forks and sub-agents of this session; the beginning of its id is enough")
    .addHelpText(
      "after",
      "\nExamples:\n  espalier list\n  espalier list ~/.pi/agent/sessions --json | jq -r .file\n  espalier list --parent 3kq7",
    )
    .action(async (folder: string | undefined, asked: Pick<ListOptions, "subAgents" | "parent">) => {
      if (folder !== undefined && !existsSync(folder))
        throw new CommandError("not-found", `There is no folder ${folder}; check the path.`);
      if (folder !== undefined && !statSync(folder).isDirectory())
        throw new CommandError(
          "usage",
          `${folder} is no folder; \`espalier tree ${folder}\` shows a session.`,
        );
      const sessions = listSessions({
        ...(folder === undefined ? storeOf(shell) : { folder: resolve(folder) }),
        ...asked,
        ...tellSkipped(shell),
      });
      if (!shell.json) {
        for await (const line of viewList(sessions, shell)) await printLine(shell, line);
        return;
      }
      for await (const session of sessions)
        await shell.output.writeLine(jsonLine(listedValue(session, asked)));
    });
}

/** The parent is told to those who asked about parents; others get what they always got. */
function listedValue({ id, ref: file, cwd, parent, ...told }: ListedSession, asked: ListOptions): object {
  const linked = asked.subAgents || asked.parent !== undefined ? { parent } : {};
  return { id: id || null, file, cwd: cwd || null, ...told, ...linked };
}

/** Columns for what a session is about where no terminal says how many there are. */
const WIDE = 160;
const ID_LENGTH = 12;

/** Columns before what a session is about: id, age, size and agent, with two spaces behind each. */
const FACTS_WIDTH = ID_LENGTH + 2 + 8 + 2 + 8 + 2 + 8 + 2;

/** A table of sessions for people. */
async function* viewList(
  sessions: AsyncIterable<ListedSession>,
  { colours, columns }: Pick<Shell, "colours" | "columns">,
  now = Date.now(),
): AsyncGenerator<string> {
  const room = Math.max(20, Math.min(columns, WIDE) - FACTS_WIDTH);
  let count = 0;
  for await (const session of sessions) {
    if (count++ === 0) yield colours.dim(row("id", "age", "size", "agent", "session"));
    const { id, ref, modified, bytes, agent, name, firstMessage, cwd } = session;
    const about = cutToColumns(plainLine(name ?? firstMessage ?? (cwd || basename(ref))), room);
    yield row(
      plainLine(id).slice(0, ID_LENGTH),
      formatAge(now - Date.parse(modified)),
      formatBytes(bytes),
      agent,
      name === null ? colours.dim(about) : about,
    );
  }
  if (count === 0) yield "There are no sessions here.";
}

function row(id: string, age: string, size: string, agent: string, about: string): string {
  return [id.padEnd(ID_LENGTH), age.padStart(8), size.padStart(8), agent.padEnd(8), about].join("  ");
}

interface SearchCommandOptions {
  limit?: number;
  caseSensitive?: boolean;
}

export function addSearch(program: Command, shell: Shell): void {
  program
    .command("search <query> [folder]")
    .description(
      "find what was said: in all sessions below a folder, or in Espalier's and the Pi coding agent's own",
    )
    .option("--limit <count>", "stop after so many", parseCount)
    .option("--case-sensitive", "tell capital letters from small ones")
    .addHelpText(
      "after",
      `
The query is literal text. Messages are searched, calls with their arguments, results and summaries, on all branches
and behind compactions, but not what a model thought; the newest sessions come first. Instead of a folder, one session's
file can be named.

Examples:
  espalier search "disk full"
  espalier search cache-control ~/old-sessions --limit 20
  espalier search flaky session.jsonl --json | jq -r .entryId`,
    )
    .action(async (query: string, place: string | undefined, options: SearchCommandOptions) => {
      const found = searchSessions(query, {
        ...options,
        ...(place === undefined ? storeOf(shell) : placeOf(place)),
        ...tellSkipped(shell),
      });
      let count = 0;
      for await (const hit of found) {
        count++;
        await printStep(shell, { ...hit, sessionId: hit.sessionId || null }, () => viewHit(hit, shell));
        // Who waits at a terminal sees what was found while the search goes on.
        if (Number.isFinite(shell.columns)) await shell.output.flush();
      }
      if (count === 0 && !shell.json) await printLine(shell, "Nothing was found.");
    });
}

function placeOf(place: string): Pick<SearchOptions, "files" | "folder"> {
  if (!existsSync(place))
    throw new CommandError("not-found", `There is no file or folder ${place}; check the path.`);
  const path = resolve(place);
  return statSync(path).isDirectory() ? { folder: path } : { files: [path] };
}

/** Ids and file names are named by so much of them. */
const NAME_LENGTH = 12;

/** One line for what was found: which session, which entry, and the words around it. */
function viewHit(
  { file, sessionId, entryId, role, snippet, onPath }: SearchHit,
  { colours }: Pick<Shell, "colours">,
): string {
  const session = (sessionId === "" ? basename(file) : sessionId).slice(0, NAME_LENGTH);
  const place = colours.dim(`${plainLine(session)}  ${plainLine(entryId)}`);
  const mark = onPath ? "" : colours.dim(" (another branch)");
  return `${place}  ${colours.cyan(plainLine(role))}${mark}  ${plainLine(snippet)}`;
}

export function addHistory(program: Command, shell: Shell): void {
  program
    .command("history <session> <query>")
    .description("read original messages again: by words, also where only a summary stands for them")
    .option("--limit <count>", "the newest ones, so many at most", parseCount)
    .addHelpText(
      "after",
      `
All words of the query must stand in a message, in any case and order. What a compaction covers and other branches are
searched too, and marked. An agent's model asks the same by the tool query_history.

Examples:
  espalier history session.jsonl "cache key"
  espalier history session.jsonl etag --limit 3 --json | jq -r .text`,
    )
    .action((ref: string, query: string, { limit }: { limit?: number }) =>
      reading(shell, ref, async (session) => {
        const hits = historyOf(session, { query, ...(limit === undefined ? {} : { limit }) });
        if (!shell.json) return printLines(shell, viewHistory(hits, shell));
        for (const hit of hits) await shell.output.writeLine(jsonLine(historyValue(hit)));
      }),
    );
}

const historyValue = ({ entryId, text, covered, onPath }: HistoryHit): object => ({
  entryId,
  text,
  covered,
  onPath,
});

/** Lines of a message that are shown, and characters of each. */
const SHOWN = 6;
const LINE_LENGTH = 200;

/** Original messages for people: which, whose, whether the model still reads them, and how they begin. */
function* viewHistory(hits: readonly HistoryHit[], { colours }: Pick<Shell, "colours">): Generator<string> {
  if (hits.length === 0) yield "No message matches.";
  for (const [at, { entryId, role, text, timestamp, covered, onPath }] of hits.entries()) {
    if (at > 0) yield "";
    const facts = [
      entryId,
      formatTime(timestamp),
      covered ? "covered by a summary" : "",
      onPath ? "" : "on another branch",
    ].filter((fact) => fact !== "");
    yield `${colours.cyan(plainLine(role))} ${colours.dim(plainLine(facts.join(" · ")))}`;
    const lines = plainText(text).split("\n");
    for (const line of lines.slice(0, SHOWN)) yield `  ${cutLine(line, LINE_LENGTH)}`;
    if (lines.length > SHOWN) yield colours.dim(`  … ${lines.length - SHOWN} more lines`);
  }
}
