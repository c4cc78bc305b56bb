import { SessionTreeError, type ToolDefinition } from "@espalier/session-tree";
import { cutText } from "@espalier/summarizer";
import { type HistoryQuery, queryHistory } from "./query-history.ts";
import type { ReadableSession } from "./session-summary.ts";

/** The tool by which a model reads what summaries stand for. */
export const queryHistoryTool = {
  name: "query_history",
  description:
    "Finds original messages of this conversation, also those that only a summary stands for and those of other branches. Give words, a range of entry ids, or both. Each result names its entry id and says whether it is summarised (covered) and whether it is on the current branch.",
  parameters: {
    type: "object",
    properties: {
      query: { type: "string", description: "Words that must all stand in a message; case does not matter." },
      from: { type: "string", description: "Entry id: the first message of a range." },
      to: {
        type: "string",
        description: "Entry id: the last message of a range; the newest message where it is left out.",
      },
      limit: { type: "integer", minimum: 1, maximum: 50, description: "Results at most; default 10." },
    },
  },
} as const satisfies ToolDefinition;

const { name, description, parameters } = queryHistoryTool;

/** The same tool as Anthropic's Messages API takes it. */
export const queryHistoryAnthropicTool = { name, description, input_schema: parameters } as const;

/** The same tool as OpenAI's Chat Completions API takes it. */
export const queryHistoryOpenaiTool = {
  type: "function",
  function: { name, description, parameters },
} as const;

/** Characters of all results together; more is cut, and found whole by asking for fewer. */
const MOST_CHARACTERS = 24_000;
const MOST_RESULTS = 50;

/** Answers a call of the tool in words. What a model got wrong about the arguments is an answer too. */
export function runQueryHistory(session: ReadableSession, input: unknown): string {
  const given = (typeof input === "object" && input !== null ? input : {}) as Record<string, unknown>;
  try {
    const hits = queryHistory(session, queryFrom(given));
    if (hits.length === 0) return "No message of this conversation matches.";
    const most = Math.floor(MOST_CHARACTERS / hits.length);
    return hits
      .map(({ entryId, role, text, timestamp, covered, onPath }) => {
        const marks = [covered ? "covered by a summary" : "", onPath ? "" : "on another branch"].filter(
          Boolean,
        );
        return `[${entryId}] ${role}, ${timestamp}${marks.length > 0 ? ` (${marks.join(", ")})` : ""}\n${cutText(text, most, "head-tail")}`;
      })
      .join("\n\n");
  } catch (error) {
    if (error instanceof SessionTreeError && error.code === "unknown-entry") return error.message;
    throw error;
  }
}

function queryFrom({ query, from, to, limit }: Record<string, unknown>): HistoryQuery {
  const range = {
    ...(typeof from === "string" && from !== "" ? { from } : {}),
    ...(typeof to === "string" && to !== "" ? { to } : {}),
  };
  const wanted = typeof limit === "number" && limit >= 1 ? Math.floor(limit) : 10;
  return {
    ...(typeof query === "string" ? { query } : {}),
    ...(Object.keys(range).length > 0 ? { range } : {}),
    limit: Math.min(MOST_RESULTS, wanted),
  };
}
