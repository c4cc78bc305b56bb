import { type HistoryHit, historyOf } from "@espalier/engine";
import type { Command } from "commander";
import { parseCount } from "../count-option.ts";
import { jsonLine } from "../json-pieces.ts";
import { reading } from "../opening.ts";
import { printLines } from "../print.ts";
import type { Shell } from "../shell.ts";
import { viewHistory } from "../views/view-history.ts";

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
