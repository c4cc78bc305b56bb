import { excessBytes, pictureEdits, readSpan, waitingItem } from "@espalier/compaction";
import { EventType } from "@espalier/policies";
import { contextEdit, type SessionContext } from "@espalier/session-tree";
import type { SessionState } from "./session-state.ts";

/**
 * Leaves pictures out of a request that has too many bytes, the oldest first: by edits, so that the log keeps them and
 * nothing is asked of a model. Those of a message that waits for its answer stay.
 *
 * @param sent what the request is made of
 * @param bytes of the request
 */
export async function leaveOutPictures(
  { core, events }: SessionState,
  sent: SessionContext,
  bytes: number,
  requestBytes: number,
): Promise<void> {
  const sources = new Set(sent.sources);
  const span = readSpan(core.window.entries);
  const items = span.items.filter(({ entry }) => sources.has(entry.id));
  const edits = pictureEdits(items, excessBytes(bytes, requestBytes), waitingItem(span));
  if (edits.length === 0) return;
  await core.append(edits.map((edit) => contextEdit.of(edit)));
  events.publish(EventType.STATE_CHANGED, { name: "session.pictures", data: { messages: edits.length } });
}
