import type { SessionContext } from "@espalier/session-tree";
import { previewMessage } from "../entry-preview.ts";
import { formatMany } from "../numbers.ts";
import { plainLine } from "../plain-text.ts";
import { cutToColumns } from "../text-columns.ts";

/** Messages that an outline names at its beginning and at its end. */
const ENDS = 4;

/** A context in a few lines: what it comes to, its first and its last messages. */
export function contextOutline({ messages, tokens }: SessionContext, width: number): string[] {
  const lines = messages.map((message) => () => {
    const role = ROLES[message.role] ?? plainLine(message.role);
    return cutToColumns(`${role.padEnd(9)} ${previewMessage(message)}`, width);
  });
  const left = lines.length - 2 * ENDS;
  const shown =
    left > 1
      ? [...lines.slice(0, ENDS), () => `… ${formatMany(left, "more message")}`, ...lines.slice(-ENDS)]
      : lines;
  return [
    `${formatMany(messages.length, "message")}, ${formatMany(tokens, "token")}`,
    ...shown.map((line) => line()),
  ];
}

/** Roles in a narrow column. */
const ROLES: Record<string, string> = {
  compactionSummary: "summary",
  branchSummary: "branch",
  toolResult: "result",
  bashExecution: "shell",
};
