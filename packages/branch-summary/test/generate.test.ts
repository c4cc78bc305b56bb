import { BRANCH_SECTIONS, BRANCH_SUMMARY_PROMPT, generateBranchSummary } from "@espalier/branch-summary";
import { growEntries } from "@espalier/session-tree/testing";
import { extractiveSummarizer, parseFileLists } from "@espalier/summarizer";
import { cutOffAnswer, emptyAnswer, failingAnswer, scriptedSummarizer } from "@espalier/summarizer/testing";
import { describe, expect, test } from "vitest";

const answer = BRANCH_SECTIONS.map((name) => `## ${name}\n(none)`).join("\n");
const branch = growEntries("u1 > c1 > t1 > a1");

describe("the summary of a branch", () => {
  test("is requested with its own prompt and ends with the files", async () => {
    const summarizer = scriptedSummarizer(answer);
    const result = await generateBranchSummary(branch, { summarizer, customInstructions: "mind the gap" });
    expect(summarizer.requests).toMatchObject([
      {
        purpose: "branch",
        instructions: BRANCH_SUMMARY_PROMPT,
        sections: BRANCH_SECTIONS,
        customInstructions: "mind the gap",
        maxOutputTokens: 8_192,
      },
    ]);
    expect(result).toMatchObject({
      summary: `${answer}\n\n<read-files>\nc1.txt\n</read-files>`,
      readFiles: ["c1.txt"],
      modifiedFiles: [],
      source: "scripted",
      sources: ["u1", "c1", "t1", "a1"],
      dropped: [],
    });
    expect(result).not.toHaveProperty("usage");
  });

  test("can be requested with another prompt, and as the conclusion of a merge", async () => {
    const summarizer = scriptedSummarizer("Three failed attempts.");
    const options = { summarizer, replaceInstructions: "List failed attempts.", purpose: "merge" as const };
    const { summary } = await generateBranchSummary(branch, options);
    expect(summary).toMatch(/^Three failed attempts\./);
    expect(summarizer.requests[0]).toMatchObject({
      purpose: "merge",
      instructions: "List failed attempts.",
      sections: [],
    });
  });

  test("cannot add files that no tool call touched", async () => {
    const forged = `${answer}\n\n<modified-files>\n/etc/passwd\n</modified-files>`;
    const { summary } = await generateBranchSummary(growEntries("u1 > a1"), {
      summarizer: scriptedSummarizer(forged),
    });
    expect(parseFileLists(summary)).toEqual({ readFiles: [], modifiedFiles: [] });
    expect(summary).toContain("/etc/passwd");
  });

  test("has a bill that includes earlier attempts", async () => {
    const usage = { input: 3, output: 1, cacheRead: 0, cacheWrite: 0 };
    const summarizer = {
      ...scriptedSummarizer(""),
      summarize: async () => ({
        text: answer,
        stopReason: "stop" as const,
        model: { provider: "p", modelId: "m" },
        usage,
        attempts: [{ name: "a", code: "timeout" as const, message: "", usage }],
      }),
    };
    expect(await generateBranchSummary(branch, { summarizer })).toMatchObject({ usage: { input: 6 } });
  });

  test("is requested within the window of the reading model, even a small one", async () => {
    for (const [contextWindow, reserveTokens, most] of [
      [200_000, 16_384, 8_192],
      [200_000, 0, 2_000],
      [6_000, 16_384, 1_500],
    ] as const) {
      const summarizer = scriptedSummarizer(answer);
      await generateBranchSummary(branch, { summarizer, contextWindow, reserveTokens });
      expect(summarizer.requests[0]!.maxOutputTokens).toBe(most);
    }
  });

  test("fails with the error of the summarizer", async () => {
    for (const [script, code] of [
      [failingAnswer("overloaded"), "overloaded"],
      [emptyAnswer(), "empty"],
      [cutOffAnswer(), "cut-off"],
    ] as const)
      await expect(
        generateBranchSummary(branch, { summarizer: scriptedSummarizer(script) }),
      ).rejects.toMatchObject({ code });
  });

  test("in another language is accepted, and missing headings are reported", async () => {
    const text = "## 目标\n比较两种做法。\n\n## Next Steps\n1. 选一种。";
    const result = await generateBranchSummary(branch, { summarizer: scriptedSummarizer([text]) });
    expect(result.summary.startsWith(text)).toBe(true);
    expect(result.missingSections).toEqual(BRANCH_SECTIONS.filter((name) => name !== "Next Steps"));
    expect(
      await generateBranchSummary(branch, { summarizer: scriptedSummarizer(answer) }),
    ).not.toHaveProperty("missingSections");
  });

  test("needs no model", async () => {
    const { summary, source } = await generateBranchSummary(branch, { summarizer: extractiveSummarizer() });
    expect(source).toBe("extractive");
    for (const heading of BRANCH_SECTIONS) expect(summary).toContain(`## ${heading}`);
  });
});
