// Recall of a summary that was written without a model: node bench/recall.mjs [SESSION …]
//
// A session is cut at six points, and everything before the kept tail is summarized. The targets are exact strings (paths,
// names, flags, constants, addresses) that the user or the assistant use again after the cut, that were said before it, and
// that the kept tail does not have. Recall is the share of targets that the summary has, letter by letter.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";

const KEPT_TOKENS = 20_000;
const POINTS = 6;
const root = new URL("../", import.meta.url);
const espalier = fileURLToPath(new URL("scripts/espalier.mjs", root));
/** The demo session, and a long one of the corpus where that is beside the repository. */
export const sessionsToRecall = [
  "apps/cli/assets/demo-session.jsonl",
  "../shared/corpus/pi/large-session.jsonl",
]
  .map((path) => fileURLToPath(new URL(path, root)))
  .filter((path) => existsSync(path));

/** Exact strings: those that cannot be guessed from their meaning. */
const EXACT = [
  /https?:\/\/[^\s"')\]]+/g,
  /(?:[\w@.-]+\/)+[\w@.-]+\.[A-Za-z]{1,5}\b/g,
  /\b[\w-]+\.(?:ts|tsx|js|mjs|json|md|css|html|sh|py|go|rs|toml|ya?ml)\b/g,
  /\b[a-z]+[A-Z][A-Za-z0-9]{3,}\b/g,
  /\b[A-Z][a-z0-9]+[A-Z][A-Za-z0-9]+\b/g,
  /\b[a-z0-9]+_[a-z0-9_]{3,}\b/g,
  /--[a-z][a-z-]{3,}/g,
  /\b[A-Z][A-Z0-9_]{4,}\b/g,
];

const exactStrings = (text) =>
  new Set(
    EXACT.flatMap((pattern) => text.match(pattern) ?? []).filter(
      ({ length }) => length >= 6 && length <= 120,
    ),
  );

function textOf(message) {
  if (message.role === "bashExecution") return `${message.command}\n${message.output}`;
  if (typeof message.content === "string") return message.content;
  const words = (block) =>
    block.text ?? (block.type === "toolCall" ? `${block.name} ${JSON.stringify(block.arguments)}` : "");
  return (message.content ?? []).map(words).join("\n");
}

const tokensOf = (message) => Math.ceil(textOf(message).length / 4);

function* cutsOf(messages, keptTokens) {
  for (let point = 1; point <= POINTS; point++) {
    const now = Math.floor((messages.length * point) / (POINTS + 1));
    let from = now;
    for (let kept = 0; from > 0 && kept < keptTokens; ) kept += tokensOf(messages[--from]);
    while (from < now && messages[from].role === "toolResult") from++;
    // A shorter history is no measure of a summary.
    if (from >= 20)
      yield { history: messages.slice(0, from), kept: messages.slice(from, now), later: messages.slice(now) };
  }
}

function targetsOf({ history, kept, later }) {
  const stringsIn = (messages) => exactStrings(messages.map(textOf).join("\n"));
  const before = stringsIn(history);
  const still = stringsIn(kept);
  const used = stringsIn(later.filter(({ role }) => role !== "toolResult"));
  return [...used].filter((string) => before.has(string) && !still.has(string));
}

function summarize(history) {
  const input = JSON.stringify({ messages: history });
  const command = [espalier, "summarize", "--summarizer", "extractive"];
  const { stdout, status, stderr } = spawnSync(process.execPath, command, {
    input,
    encoding: "utf8",
    maxBuffer: 1 << 28,
  });
  if (status !== 0) throw new Error(`espalier summarize failed: ${stderr}`);
  return stdout;
}

/** Measures the summaries of one session: the mean recall, and the mean size in tokens. */
export function recallOf(file) {
  const entries = readFileSync(file, "utf8")
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));
  const messages = entries.filter(({ type }) => type === "message").map(({ message }) => message);
  const size = messages.reduce((sum, message) => sum + tokensOf(message), 0);
  const rows = [];
  // A short session would be kept whole: keep a sixth of it then.
  for (const cut of cutsOf(messages, Math.min(KEPT_TOKENS, size / 6))) {
    const targets = targetsOf(cut);
    if (targets.length === 0) continue;
    const summary = summarize(cut.history);
    const found = targets.filter((target) => summary.includes(target)).length;
    rows.push({ recall: found / targets.length, tokens: Math.ceil(summary.length / 4) });
  }
  const mean = (field) => rows.reduce((sum, row) => sum + row[field], 0) / rows.length;
  return {
    name: basename(file),
    recall: Number(mean("recall").toFixed(3)),
    tokens: Math.round(mean("tokens")),
    each: rows.map((row) => row.recall.toFixed(2)),
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const given = process.argv.slice(2);
  for (const { name, recall, tokens, each } of (given.length > 0 ? given : sessionsToRecall).map(recallOf))
    console.log(
      `${name}: recall ${recall.toFixed(3)} with ${tokens} tokens (${each.length} cuts: ${each.join(" ")})`,
    );
}
