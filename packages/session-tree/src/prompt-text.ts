import { customMessage } from "./entries/custom-message.ts";
import { isMessage } from "./entries/message.ts";
import type { Entry } from "./entry.ts";
import { contentText } from "./message.ts";

/**
 * The text of something a user typed or an extension said in a user's place: what comes back into an editor when one
 * goes there. Null for every other entry.
 */
export function promptText(entry: Entry): string | null {
  if (isMessage(entry, "user")) return contentText(entry.message);
  return customMessage.is(entry) ? contentText(entry) : null;
}
