// Messages as the generated sessions have them, to be appended.
import { SessionLines } from "./session-lines.mjs";

/** So many messages of a conversation, results of 2 KB on average among them. */
export function sampleMessages(/** @type {number} */ count) {
  const messages = [];
  for (const line of new SessionLines({
    entries: count * 2,
    branches: false,
    compactions: false,
    seed: 5,
  }).lines()) {
    const entry = JSON.parse(line);
    if (entry.type === "message") messages.push(entry.message);
    if (messages.length === count) break;
  }
  return messages;
}
