import type { ContextMessage } from "@espalier/session-tree";
import { escapeAttribute, escapeText, renderTranscript, unescapeText } from "@espalier/summarizer";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { assistant, picture, result, user } from "./build-messages.ts";

/** Texts full of what an escape has to get right. */
const hostileText = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        "<",
        ">",
        "&",
        "&lt;",
        "&amp;",
        "&amp;lt;",
        "&#10;",
        "&quot;",
        '"',
        "\n",
        "\r",
        "lt;",
        "amp;",
      ),
      fc.constantFrom(
        "</message>",
        '<message role="user">',
        "</transcript>",
        "<call>",
        "\ud83d",
        "\udc4d",
        "👍",
      ),
      fc.string({ maxLength: 5 }),
    ),
    { maxLength: 12 },
  )
  .map((parts) => parts.join(""));

describe("the escape", () => {
  it("does not change commands and code without tags", () => {
    expect(escapeText("npm test && x => a > b; R&D &c. &nbsp;")).toBe(
      "npm test && x => a > b; R&D &c. &nbsp;",
    );
  });

  it("restores every text, with lone surrogates replaced, and no tag passes", () => {
    fc.assert(
      fc.property(hostileText, (text) => {
        expect(escapeText(text)).not.toContain("<");
        expect(unescapeText(escapeText(text))).toBe(text.toWellFormed());
        expect(escapeAttribute(text)).not.toMatch(/[<>"\n\r]/);
        expect(unescapeText(escapeAttribute(text))).toBe(text.toWellFormed());
      }),
      { numRuns: 2_000 },
    );
  });
});

describe("renderTranscript", () => {
  it("shows each message between tags, calls with their arguments, results by their tool", () => {
    const messages = [
      user("Fix the <b>test</b>."),
      assistant("I read it first.", [{ id: "1", name: "read", arguments: { path: "a.test.ts", limit: 20 } }]),
      result("1", "expect(1).toBe(2)"),
      result("2", "no such file", { toolName: "ls", isError: true }),
    ];
    expect(renderTranscript(messages)).toBe(
      [
        "<transcript>",
        '<message role="user">',
        "Fix the &lt;b>test&lt;/b>.",
        "</message>",
        '<message role="assistant">',
        "I read it first.",
        '<call>read(path="a.test.ts", limit=20)</call>',
        "</message>",
        '<message role="tool-result" tool="read">',
        "expect(1).toBe(2)",
        "</message>",
        '<message role="tool-result" tool="ls" error="yes">',
        "no such file",
        "</message>",
        "</transcript>",
      ].join("\n"),
    );
  });

  it("cuts results, output of commands and arguments to 2,000 characters, but not texts of users and models", () => {
    const long = "y".repeat(3_000);
    const shown = renderTranscript([
      user(long),
      assistant("", [{ id: "1", name: "write", arguments: { content: long } }]),
      result("1", long),
      { role: "bashExecution", command: "cat x", output: long, exitCode: 1, timestamp: 1 },
    ]);
    expect(shown.split("[… 1000 characters left out]").length - 1).toBe(2);
    // The quotation marks of the argument are part of it.
    expect(shown).toContain(`content="${"y".repeat(1_999)}\n[… 1002 characters left out]`);
    expect(shown).toContain(long);
    expect(shown).toContain('<message role="user-command" exit="1">\n$ cat x\n');
  });

  it("leaves out thinking, system prompts and excluded commands, and has a word for an image", () => {
    const shown = renderTranscript([
      { role: "system", content: "You are secret", timestamp: 1 },
      { role: "bashExecution", command: "env", output: "TOKEN=1", excludeFromContext: true, timestamp: 1 },
      assistant("", [], { content: [{ type: "thinking", thinking: "hm", thinkingSignature: "s" }] }),
      picture("QUJD".repeat(1_000)),
    ]);
    expect(shown).toBe('<transcript>\n<message role="user">\n[image]\n</message>\n</transcript>');
  });

  it("marks failed answers, and includes earlier summaries", () => {
    const shown = renderTranscript([
      assistant("Half", [], { stopReason: "aborted" }),
      assistant("", [], { stopReason: "error", errorMessage: "overloaded" }),
      { role: "compactionSummary", summary: "## Goal\nShip", tokensBefore: 5, timestamp: 1 },
      { role: "branchSummary", summary: "Tried A", fromId: "x", timestamp: 1 },
      { role: "custom", customType: "notes", content: "Remember", display: true, timestamp: 1 },
    ]);
    expect(shown).toContain('<message role="assistant" failed="aborted">\nHalf');
    expect(shown).toContain('<message role="assistant" failed="error">\noverloaded');
    expect(shown).toContain('<message role="earlier-summary">\n## Goal\nShip');
    expect(shown).toContain('<message role="branch-summary">\nTried A');
    expect(shown).toContain('<message role="custom" from="notes">\nRemember');
  });

  it("has no tag that a message could have written, for any text", () => {
    const anyMessage: fc.Arbitrary<ContextMessage> = fc.oneof(
      hostileText.map(user),
      fc
        .tuple(hostileText, hostileText, hostileText)
        .map(([text, name, key]) => assistant(text, [{ id: "1", name, arguments: { [key]: text } }])),
      fc.tuple(hostileText, hostileText).map(([text, toolName]) => result("1", text, { toolName })),
      hostileText.map(
        (summary): ContextMessage => ({ role: "branchSummary", summary, fromId: "x", timestamp: 1 }),
      ),
      fc.tuple(hostileText, hostileText).map(
        ([content, customType]): ContextMessage => ({
          role: "custom",
          customType,
          content,
          display: true,
          timestamp: 1,
        }),
      ),
    );
    const ours =
      /^(?:<transcript>|<\/transcript>|<message(?: [a-z]+="[^"<>\n]*")+>|<\/message>|<call>[^<]*<\/call>)$/;
    fc.assert(
      fc.property(fc.array(anyMessage, { maxLength: 6 }), fc.nat(40), (messages, toolResultLimit) => {
        const shown = renderTranscript(messages, { toolResultLimit });
        expect(shown.isWellFormed()).toBe(true);
        const tags = shown.match(/<call>[^<]*<\/call>|<[^<]*?(?:>|$)/g) ?? [];
        for (const tag of tags) expect(tag).toMatch(ours);
        expect(shown.split("<message").length).toBe(shown.split("</message>").length);
        expect(shown.split("</transcript>").length).toBe(2);
      }),
      { numRuns: 500 },
    );
  });

  it("accepts content of files from other programs", () => {
    const broken = [
      { role: "assistant", content: null, timestamp: 1 },
      { role: "toolResult", content: [{ type: "text" }, null, "x"], toolCallId: 1 },
      { role: "assistant", content: [{ type: "toolCall", name: undefined, arguments: "ls" }] },
      { role: "user", content: [{ type: "document", data: "x" }] },
      { role: "unheard-of", content: "hm" },
      { role: "branchSummary" },
      { role: "bashExecution" },
    ] as unknown as ContextMessage[];
    const shown = renderTranscript(broken);
    expect(shown).toContain("[document]");
    expect(shown).toContain('<message role="unheard-of">\nhm');
    expect(shown).toContain('(arguments="ls")');
  });
});

it("shows a call whose name is no text", () => {
  const call = { type: "toolCall", id: "c", name: { toString: "none" }, arguments: { path: "a.ts" } };
  const answer = { role: "assistant", content: [call], timestamp: 1 } as never;
  expect(renderTranscript([answer])).toContain('(path="a.ts")</call>');
});
