import type { ContextMessage, ToolResultMessage } from "@espalier/session-tree";
import { contentUnavailable, offloadedPath, withText } from "./offload-reference.ts";
import type { OffloadStorage } from "./offload-storage.ts";

/**
 * Messages with the content of offloaded results read back; a result whose file is gone says so. Only paths of the
 * storage are read: a tool's own words that look like a reference stay what they are.
 */
export async function restoreOffloadedContent(
  messages: readonly ContextMessage[],
  storage: OffloadStorage,
): Promise<ContextMessage[]> {
  return Promise.all(
    messages.map(async (message) => {
      const path = offloadedPath(message);
      if (path === undefined || !storage.owns(path)) return message;
      return withText(message as ToolResultMessage, (await storage.read(path)) ?? contentUnavailable(path));
    }),
  );
}

/** The paths that messages name; {@link restoreOffloadedContent} reads those of its storage. */
export function offloadedPaths(messages: readonly ContextMessage[]): string[] {
  return messages.map(offloadedPath).filter((path) => path !== undefined);
}
