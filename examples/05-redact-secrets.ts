// Redact secrets before an entry is written: what the handler leaves is the only thing that ever reaches the disk.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { defineExtension } from "espalier";
import { conversation } from "./parts/conversation.ts";

const API_KEY = /\bkey-[A-Za-z0-9]{16,}\b/g;

/** The same value with every key in its texts replaced. */
function redacted(value: unknown): unknown {
  if (typeof value === "string") return value.replace(API_KEY, "[redacted]");
  if (Array.isArray(value)) return value.map(redacted);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, redacted(inner)]));
}

const redactSecrets = defineExtension((api) => {
  // Critical: an entry that could not be redacted is not written.
  api.on("entry_before_append", ({ entry }) => ({ entry: redacted(entry) as typeof entry }), {
    critical: true,
  });
});

const session = await conversation(redactSecrets);
await session.appendMessages([{ role: "user", content: "Use key-AbCdEfGh12345678 for the staging server." }]);

assert.match(JSON.stringify(session.context.messages.at(-1)), /Use \[redacted\] for the staging server/);
assert.ok(!readFileSync(session.file, "utf8").includes("key-AbCdEfGh"));
await session.close();
