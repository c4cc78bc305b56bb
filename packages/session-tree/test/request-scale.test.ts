import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import {
  buildRequest,
  type ContextMessage,
  contentBlocks,
  isFailedAnswer,
  requestFormats,
} from "@espalier/session-tree";
import { describe, expect, it } from "vitest";
import { chatProblems, messagesProblems, responsesProblems } from "./messages-rules.ts";
import { contextOf, model } from "./request-histories.ts";

const problemsOf = {
  anthropic: messagesProblems,
  openai: chatProblems,
  "openai-responses": responsesProblems,
};
const names = ["anthropic", "openai", "openai-responses"] as const;
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

/** Enough that a quadratic pass runs into the time limit. */
const MANY = 40_000;
/** More than can be spread into one call. */
const TOO_MANY_TO_SPREAD = 150_000;
const list = <Value>(length: number, value: (index: number) => Value) =>
  Array.from({ length }, (_, index) => value(index));

const histories: Record<string, () => unknown[]> = {
  "a long ordinary session": () =>
    list(
      MANY,
      (index) =>
        [{ role: "user", content: "go" }, answer([call(`c${index}`)]), result(`c${index - 1}`)][index % 3],
    ),
  "one user speaking": () =>
    list(TOO_MANY_TO_SPREAD, (index) => ({ role: index % 2 ? "user" : "custom", content: "go" })),
  "one answer of many blocks": () => [
    answer(list(TOO_MANY_TO_SPREAD, (index) => [{ type: "text", text: "t" }, call("same")][index % 2])),
  ],
  "one id for all calls": () => list(MANY, (index) => [answer([call("same")]), result("same")][index % 2]),
  "calls that nobody answers, then answers that nobody asked for": () => [
    ...list(MANY, (index) => answer([call(`c${index % 100}`)])),
    ...list(MANY, (index) => result(`c${index % 70}`)),
  ],
  "ids that differ after the last character that counts": () =>
    list(MANY, (index) => answer([call(`${"x".repeat(64)}${index}`)])),
};

describe.each(Object.keys(histories))("%s", (title) => {
  it("is built in one pass, and valid", () => {
    const request = buildRequest(contextOf(histories[title]!()), { format: requestFormats.anthropic });
    expect(messagesProblems(request)).toEqual([]);
  });

  it("is written in one pass by the other formats", () => {
    const context = contextOf(histories[title]!());
    expect(buildRequest(context, { format: requestFormats.openai }).messages.length).toBeGreaterThan(0);
    expect(
      buildRequest(context, { format: requestFormats["openai-responses"] }).input.length,
    ).toBeGreaterThan(0);
  });
});

const CORPUS = fileURLToPath(new URL("../../../../shared/corpus/pi/large-session.jsonl", import.meta.url));

// The recorded session belongs to the corpus beside the repository; a checkout alone does not have it.
describe.skipIf(!existsSync(CORPUS))("a recorded session of 914 messages (skipped: no corpus)", () => {
  const recorded: ContextMessage[] = existsSync(CORPUS)
    ? readFileSync(CORPUS, "utf8")
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line))
        .flatMap(({ type, message }) => (type === "message" ? [message] : []))
    : [];
  /** As if the answers that the user aborted had ended well: 18 of their calls have no result. */
  const broken = recorded.map((message) =>
    "stopReason" in message ? { ...message, stopReason: "toolUse" } : message,
  );
  const request = (history: unknown[]) =>
    buildRequest(contextOf(history), { format: requestFormats.anthropic });
  const unanswered = (history: unknown[]) =>
    JSON.stringify(request(history)).split("No result was recorded.").length - 1;

  it.each(names)("is valid in the format %s, at every place one could stop", (name) => {
    for (const history of [recorded, broken]) {
      for (let length = history.length; length > 0; length -= 101) {
        const context = contextOf(history.slice(0, length));
        expect(problemsOf[name](buildRequest<object>(context, { format: requestFormats[name] }))).toEqual([]);
      }
    }
  });

  it("has all its results, and its aborted calls get one when they count", () => {
    expect(unanswered(recorded)).toBe(0);
    expect(unanswered(broken)).toBe(18);
  });

  it("keeps every word of the user and of the answers that count", () => {
    const sent = JSON.stringify(request(recorded));
    for (const message of recorded) {
      if (isFailedAnswer(message)) continue;
      for (const block of contentBlocks(message as { content: unknown })) {
        if (block.type === "text" && block.text.trim() !== "")
          expect(sent).toContain(JSON.stringify(block.text.trimEnd()).slice(1, -1));
      }
    }
  });
});
