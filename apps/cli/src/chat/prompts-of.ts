import type { Session } from "@espalier/engine";
import { messageText } from "@espalier/session-tree";

/** How many prompts the arrow keys bring back. */
const REMEMBERED = 200;

/** What was said to the model on this path, newest first. */
export function promptsOf({ context }: Session): string[] {
  const prompts = context.messages.flatMap((message) =>
    message.role === "user" ? [messageText(message)] : [],
  );
  return [...new Set(prompts.reverse())].slice(0, REMEMBERED);
}
