// What must be true of the demo session, whatever the screenplay says: it is a valid session of format v3, and it has
// something of everything.
import assert from "node:assert/strict";

const BESIDE = new Set(["label", "session_info", "usage", "leaf"]);

const EVERY_TYPE = (
  "message compaction branch_summary custom custom_message context_edit label model_change thinking_level_change " +
  "session_info usage leaf"
).split(" ");

/** Throws an AssertionError that names the entry when the session is not sound. */
export function checkSession(text) {
  assert.ok(
    text.endsWith("\n") && text.isWellFormed(),
    "The file ends with a newline and is well-formed Unicode.",
  );
  const [header, ...entries] = text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  assert.equal(header.type, "session");
  assert.equal(header.version, 3);
  const byId = new Map(entries.map((entry) => [entry.id, entry]));
  assert.equal(byId.size, entries.length, "Ids are unique.");

  checkTree(entries, byId);
  checkCalls(entries);
  for (const entry of entries) checkReferences(entry, byId);
  checkContents(text, entries);
}

/** Entries from the root to this one. */
function pathOf(entry, byId) {
  const path = [];
  for (let current = entry; current; current = byId.get(current.parentId)) path.push(current);
  return path.reverse();
}

function checkTree(entries, byId) {
  const above = new Set();
  let time = 0;
  for (const entry of entries) {
    const { id, parentId, timestamp, message } = entry;
    assert.match(id, /^[A-Za-z0-9]{12}$/);
    assert.ok(parentId === null || above.has(parentId), `The parent of ${id} stands above it.`);
    assert.ok(!BESIDE.has(byId.get(parentId)?.type), `${id} follows an entry that nothing may follow.`);
    assert.ok(Date.parse(timestamp) >= time, `${id} is older than the entry above it.`);
    if (message) assert.ok(message.timestamp <= Date.parse(timestamp), `${id} was written before it began.`);
    time = Date.parse(timestamp);
    above.add(id);
  }
  assert.equal(
    entries.filter(({ parentId, type }) => parentId === null && type !== "leaf").length,
    1,
    "One root.",
  );
}

/** Each answer that did not fail is followed by the results of its calls, in order, and by nothing else. */
function checkCalls(entries) {
  const children = byParent(entries);
  const interrupted = [];
  for (const entry of entries) {
    if (entry.message?.role !== "assistant") continue;
    const { content, stopReason } = entry.message;
    const calls = content.filter((block) => block.type === "toolCall");
    if (stopReason === "aborted" || stopReason === "error") {
      if (calls.length > 0) interrupted.push(entry);
      continue;
    }
    assert.equal(stopReason, calls.length > 0 ? "toolUse" : "stop", `How ${entry.id} ended.`);
    let current = entry;
    for (const call of calls) {
      const next = (children.get(current.id) ?? []).filter(({ type }) => !BESIDE.has(type));
      assert.equal(next.length, 1, `One result follows ${current.id}.`);
      [current] = next;
      assert.equal(current.message?.toolCallId, call.id, `The result of ${call.id} follows ${entry.id}.`);
      assert.equal(current.message.toolName, call.name);
    }
  }
  assert.equal(interrupted.length, 1, "One call was interrupted.");
  const below = children.get(interrupted[0]?.id) ?? [];
  assert.ok(
    below.every(({ type }) => BESIDE.has(type)),
    "Nothing was said below it.",
  );
}

function byParent(entries) {
  const children = new Map();
  for (const entry of entries) children.set(entry.parentId, [...(children.get(entry.parentId) ?? []), entry]);
  return children;
}

function checkReferences(entry, byId) {
  const { id, type, targetId, fromId, parentId } = entry;
  if (targetId) assert.ok(byId.has(targetId), `The target of ${id} exists.`);
  if (type === "leaf") assert.equal(targetId, parentId);
  if (type === "context_edit")
    assert.ok(pathOf(entry, byId).includes(byId.get(targetId)), `${id} edits its own path.`);
  if (type === "branch_summary") {
    const left = byId.get(fromId);
    assert.ok(left && !pathOf(left, byId).includes(entry), `${id} tells of another branch.`);
    assert.ok(pathOf(left, byId).includes(byId.get(parentId)), `${id} stands where the branches part.`);
  }
  if (type !== "compaction") return;
  const path = pathOf(entry, byId);
  const first = byId.get(entry.firstKeptEntryId);
  assert.ok(path.includes(first), `What ${id} keeps is on its path.`);
  const said = path.slice(path.indexOf(first)).find((one) => one.message || one.type === "branch_summary");
  assert.notEqual(said.message?.role, "toolResult", `${id} cuts between a call and its result.`);
  assert.ok(entry.details.tokensAfter < entry.tokensBefore, `${id} makes the context smaller.`);
}

function checkContents(text, entries) {
  const types = new Set(entries.map(({ type }) => type));
  for (const type of EVERY_TYPE) assert.ok(types.has(type), `There is an entry of type ${type}.`);
  assert.ok(entries.length >= 160, `At least 160 entries, not ${entries.length}.`);
  const size = Buffer.byteLength(text);
  assert.ok(size > 150_000 && size < 400_000, `150 to 400 KB, not ${size} bytes.`);
  assert.equal(entries.at(-1).type, "leaf", "The last line sets the leaf.");
}
