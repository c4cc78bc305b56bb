// Logs and histories that are built to be slow: tests read them, and the bench measures them.
import { bytesView } from "@espalier/jsonl-stream";
import {
  branches,
  buildSessionContext,
  contextOfPath,
  drawTree,
  leafOf,
  planFork,
  readPathWindow,
  referenceIssues,
  Tree,
} from "@espalier/session-tree";
import { HEADER } from "./arbitrary-log.ts";
import { model } from "./request-histories.ts";

export const TIME = "2026-01-01T00:00:00.000Z";

/** A log of so many lines, without an array of them. */
export function logOf(count: number, lineAt: (at: number) => string): Uint8Array {
  const parts: Uint8Array[] = [Buffer.from(`${HEADER}\n`)];
  for (let at = 0; at < count; at += 10_000) {
    let text = "";
    for (let i = at; i < Math.min(at + 10_000, count); i++) text += `${lineAt(i)}\n`;
    parts.push(Buffer.from(text));
  }
  return Uint8Array.from(Buffer.concat(parts));
}

export const entryLine = (id: number, parent: number | null, body: string) =>
  `{"type":"message","id":"e${id}","parentId":${parent === null ? null : `"e${parent}"`},"timestamp":"${TIME}","message":${body}}`;
export const asked = '{"role":"user","content":"and then?","timestamp":1}';

const labelAt = (id: string, parent: string, target: string) =>
  `{"type":"label","id":"${id}","parentId":"${parent}","timestamp":"${TIME}","targetId":"${target}","label":"x"}`;
const lineShapes: Record<string, (at: number, count: number) => string> = {
  "one id for all": (at) => entryLine(7, at === 0 ? null : 7, asked.replace("then", String(at))),
  "the same line again and again": () => entryLine(7, null, asked),
  "every entry its own parent": (at) => entryLine(at, at, asked),
  "every parent below": (at) => entryLine(at, at + 1, asked),
  "labels of nobody to the end": (at, count) =>
    at < count / 2 ? entryLine(at, null, asked) : labelAt(`l${at}`, "nobody", "nobody"),
  "a chain of labels that leads nowhere": (at) =>
    labelAt(`l${at}`, at === 0 ? "nobody" : `l${at - 1}`, "nobody"),
  "leaves at nobody": (at) =>
    `{"type":"leaf","id":"l${at}","parentId":"nobody","timestamp":"${TIME}","targetId":"nobody"}`,
  "labels of an id that comes again and again": (at, count) =>
    at % 2 === 0 && at > count / 2 ? entryLine(7, null, String(at)) : labelAt(`l${at}`, "e7", "e7"),
  "compactions of nothing": (at) =>
    `{"type":"compaction","id":"e${at}","parentId":"e${at - 1}","timestamp":"${TIME}","summary":"s","firstKeptEntryId":"nobody","tokensBefore":1}`,
  "edits of an id that many have beside them": (at, count) =>
    at < count / 2
      ? entryLine(7, null, asked)
      : `{"type":"context_edit","id":"e${at}","parentId":${at === count / 2 ? null : `"e${at - 1}"`},"timestamp":"${TIME}","targetId":"e7","replacement":null}`,
  "edits upon edits": (at) =>
    `{"type":"context_edit","id":"e${at}","parentId":"e${at - 1}","timestamp":"${TIME}","targetId":"e0","replacement":null}`,
  "torn lines": (at) => entryLine(at, at - 1, asked).slice(0, -3),
  "quotes and braces": () => '"{'.repeat(60),
  "side branches all the way": (at) =>
    entryLine(at, at < 2 ? (at === 0 ? null : 0) : at - 1 - (at % 2), '{"role":"assistant","content":[]}'),
};

/** Logs by the cause of the slowness, each with a number of lines. */
export const slowLogs: Readonly<Record<string, (lines: number) => Uint8Array>> = {
  ...Object.fromEntries(
    Object.entries(lineShapes).map(([name, lineAt]) => [
      name,
      (count: number) => logOf(count, (at) => lineAt(at, count)),
    ]),
  ),
  "many entries on one line": (count) =>
    Uint8Array.from(
      Buffer.from(
        `${HEADER}\n${list(count, (at) => entryLine(at, at === 0 ? null : at - 1, asked)).join("")}\n`,
      ),
    ),
};

/** Reads a log by every reader once; returns the contexts of the two that build one. */
export function readLog(bytes: Uint8Array) {
  const view = bytesView(bytes);
  const tree = new Tree(view);
  leafOf(tree);
  const { entries, before } = readPathWindow(view);
  const window = contextOfPath(entries, before);
  const whole = buildSessionContext(tree);
  buildSessionContext([...tree.entries()]);
  referenceIssues(tree);
  branches(tree);
  drawTree(tree, { fold: 2 });
  if (tree.length > 0) planFork(tree, tree.idAt(tree.length - 1));
  return { window, whole };
}

const answer = (content: unknown) => ({
  role: "assistant",
  content,
  provider: model.provider,
  model: model.modelId,
  stopReason: "toolUse",
});
const call = (id: string) => ({ type: "toolCall", id, name: "read", arguments: { path: "a.ts" } });
const result = (id: string) => ({
  role: "toolResult",
  toolCallId: id,
  content: [{ type: "text", text: "ok" }],
  isError: false,
});

/** Histories of a length in which careless code is quadratic, or spreads a long list into a call. */
export const slowHistories: Record<string, (length: number) => unknown[]> = {
  "a long ordinary session": (length) =>
    list(
      length,
      (index) =>
        [{ role: "user", content: "go" }, answer([call(`c${index}`)]), result(`c${index - 1}`)][index % 3],
    ),
  "one user speaking": (length) =>
    list(length, (index) => ({ role: index % 2 ? "user" : "custom", content: "go" })),
  "one message of many blocks": (length) => [
    { role: "user", content: list(length, () => ({ type: "text", text: "t" })) },
  ],
  "one answer of many blocks": (length) => [
    answer(list(length, (index) => [{ type: "text", text: "t" }, call("same")][index % 2])),
  ],
  "one id for all calls": (length) =>
    list(length, (index) => [answer([call("same")]), result("same")][index % 2]),
  "calls that nobody answers, then answers that nobody asked for": (length) => [
    ...list(length / 2, (index) => answer([call(`c${index % 100}`)])),
    ...list(length / 2, (index) => result(`c${index % 70}`)),
  ],
  "ids that differ after the last character that counts": (length) =>
    list(length, (index) => answer([call(`${"x".repeat(64)}${index}`)])),
};

function list<Value>(length: number, value: (index: number) => Value): Value[] {
  return Array.from({ length }, (_, index) => value(index));
}

/** Units that are slow when repeated, for a reader that scans the rest of the text for each of them. */
export const slowUnits: readonly string[] = [
  "-----BEGIN PRIVATE KEY-----",
  "sk-ant-",
  "eyJaaaaaaaaaaa.",
  "authorization: bearer ",
  "xoxb-aaaaaaaa-",
  "eyJ",
  "_eyJ",
  "A-----BEGIN PRIVATE KEY-----\n1 ",
  "://a:b",
  "key=",
  "password: a1",
  "\\u001b[",
  "\\\\",
  "%25",
  "\u001b[1;",
  "&#x",
  "sk-ant-your-key-",
  "secret_access_key:",
  "sk-abcdefghij-",
  "curl -u a:",
  "mysql -p",
  "secret_key_base=",
  "LS0tLS1CRUdJTiBQUklW",
  "://a@",
];
