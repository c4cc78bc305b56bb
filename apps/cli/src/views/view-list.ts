import { basename } from "node:path";
import type { ListedSession } from "@espalier/engine";
import { formatAge, formatBytes } from "../numbers.ts";
import { plainLine } from "../plain-text.ts";
import type { Shell } from "../shell.ts";
import { cutToColumns } from "../text-columns.ts";

/** Columns for what a session is about where no terminal says how many there are. */
const WIDE = 160;

const ID_LENGTH = 12;

/** Columns before what a session is about: id, age, size and agent, with two spaces behind each. */
const FACTS_WIDTH = ID_LENGTH + 2 + 8 + 2 + 8 + 2 + 8 + 2;

/** A table of sessions for people. */
export async function* viewList(
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
