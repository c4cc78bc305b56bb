import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { buildRequest, type ContextMessage, contentBlocks, isFailedAnswer } from "@espalier/session-tree";
import { chatProblems, checkAnthropicRequest, responsesProblems } from "@espalier/session-tree/testing";
import { describe, expect, it } from "vitest";
import { contextOf, requestFormats } from "./request-histories.ts";
import { slowHistories } from "./slow-inputs.ts";

const problemsOf = {
  anthropic: (request: unknown) => checkAnthropicRequest(request, { strict: true }),
  openai: chatProblems,
  "openai-responses": responsesProblems,
};
const names = ["anthropic", "openai", "openai-responses"] as const;
const SMALL = 15_000;
/** More than can be spread into one call. */
const LARGE = 150_000;

describe.each(Object.keys(slowHistories))("%s", (title) => {
  const contextOfLength = (length: number) => contextOf(slowHistories[title]!(length));

  it.each(names)("is valid in the format %s", (name) => {
    const request = buildRequest<object>(contextOfLength(SMALL), { format: requestFormats[name] });
    expect(problemsOf[name](request)).toEqual([]);
  });

  it("can be written when it is ten times longer", () => {
    const request = buildRequest<object>(contextOfLength(LARGE), { format: requestFormats.anthropic });
    expect(Object.values(request)[0].length).toBeGreaterThan(0);
  });
});

it.each(["openai", "openai-responses"] as const)(
  "a turn of any length can be written in the format %s",
  (name) => {
    for (const title of ["one message of many blocks", "one answer of many blocks"]) {
      const request = buildRequest<object>(contextOf(slowHistories[title]!(LARGE)), {
        format: requestFormats[name],
      });
      expect(Object.values(request)[0].length).toBeGreaterThan(0);
    }
  },
);

const CORPUS = fileURLToPath(new URL("../../../../shared/corpus/pi/large-session.jsonl", import.meta.url));

// The recorded session belongs to the corpus beside the repository; a checkout alone does not have it.
describe.skipIf(!existsSync(CORPUS))(
  "a recorded session of 914 messages (skipped without the corpus)",
  () => {
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

    it.each(names)("is valid in the format %s, at every entry", (name) => {
      for (const history of [recorded, broken]) {
        for (let length = history.length; length > 0; length -= 101) {
          const context = contextOf(history.slice(0, length));
          expect(problemsOf[name](buildRequest<object>(context, { format: requestFormats[name] }))).toEqual(
            [],
          );
        }
      }
    });

    it("has all its results, and a result for each aborted call in the context", () => {
      expect(unanswered(recorded)).toBe(0);
      expect(unanswered(broken)).toBe(18);
    });

    it("keeps every word of the user and of the sent answers", () => {
      const sent = JSON.stringify(request(recorded));
      for (const message of recorded) {
        if (isFailedAnswer(message)) continue;
        for (const block of contentBlocks(message as { content: unknown })) {
          if (block.type === "text" && block.text.trim() !== "")
            expect(sent).toContain(JSON.stringify(block.text.trimEnd()).slice(1, -1));
        }
      }
    });
  },
);
