import { readFileSync } from "node:fs";
import {
  buildCompressedHistory,
  COMPACT_SUMMARY_PROMPT,
  COMPACT_SUMMARY_SECTIONS,
  type CompactResult,
  ContextCompactor,
  type ContextCompactorOptions,
  cleanupOffloadedFiles,
  compactSummaryPrompt,
  generateSummary,
  memoryOffloadStorage,
  splitMessages,
} from "@espalier/compaction/policies";
import type { ContextMessage } from "@espalier/session-tree";
import { cutOffAnswer, failingAnswer, type Script, scriptedSummarizer } from "@espalier/summarizer/testing";
import { describe, expect, test } from "vitest";
import { answer, calling, result, talk, user } from "./conversation.ts";

const SUMMARY = COMPACT_SUMMARY_SECTIONS.map((heading) => `## ${heading}\nnone`).join("\n");

/** A log that remembers, and a clock that does not wait. */
function witnesses() {
  const said: string[] = [];
  const waits: number[] = [];
  const options: ContextCompactorOptions = {
    log: {
      warn: (message) => void said.push(`warn: ${message}`),
      error: (message) => void said.push(`error: ${message}`),
    },
    sleep: async (milliseconds) => void waits.push(milliseconds),
  };
  return { said, waits, options };
}

function compactor(script: Script, options: ContextCompactorOptions = {}) {
  const storage = memoryOffloadStorage();
  const summarizer = scriptedSummarizer(script);
  return { storage, summarizer, it: new ContextCompactor(storage, summarizer, options) };
}

describe("the prompt", () => {
  test("is the document's own prompt, complete, in a separate file", () => {
    const file = readFileSync(
      new URL("../../src/policies/prompts/compact-summary.md", import.meta.url),
      "utf8",
    );
    expect(`${COMPACT_SUMMARY_PROMPT}\n`).toBe(file);
  });

  test("names the eight headings and the target", () => {
    const headings = [...COMPACT_SUMMARY_PROMPT.matchAll(/^## (.*)$/gm)].map(([, heading]) => heading);
    expect(headings).toEqual(COMPACT_SUMMARY_SECTIONS);
    expect(compactSummaryPrompt(1_234)).toMatch(/Target length: approximately 1234 tokens\.$/);
  });
});

describe("the steps", () => {
  test("splitting keeps the newest five messages, with whole pairs", () => {
    const messages = talk(8);
    expect(splitMessages(messages)).toEqual({
      toCompress: messages.slice(0, 3),
      toPreserve: messages.slice(3),
    });
    expect(splitMessages(messages, 2).toPreserve).toHaveLength(2);
    expect(splitMessages(talk(5))).toEqual({ toCompress: [], toPreserve: talk(5) });
    const pair = [user("a"), calling("x"), result("x"), answer("b")];
    expect(splitMessages(pair, 2).toPreserve).toEqual(pair.slice(1));
    // Nothing can be cut in front of a call that began everything.
    expect(splitMessages(pair.slice(1), 2).toCompress).toEqual([]);
  });

  test("a compressed history is one user message and the kept messages", () => {
    expect(buildCompressedHistory("## Technical Context\nvim", talk(1), 7)).toEqual([
      { role: "user", content: "[Compressed History]\n\n## Technical Context\nvim", timestamp: 7 },
      ...talk(1),
    ]);
  });

  test("a summary request has the prompt as system prompt, whole results, and 1.2 times the target", async () => {
    const summarizer = scriptedSummarizer(SUMMARY);
    const whole = "line\n".repeat(2_000);
    await generateSummary([calling("x"), result("x", whole)], { summarizer, targetTokens: 1_000 });
    const [request] = summarizer.requests;
    expect(request).toMatchObject({ systemPrompt: compactSummaryPrompt(1_000), maxOutputTokens: 1_200 });
    expect(request!.transcript).toContain(whole.trimEnd());
  });

  test("files without references are removed; a file that cannot be removed gives a warning", async () => {
    const storage = memoryOffloadStorage();
    const [one, two, three] = [await storage.write("1"), await storage.write("2"), await storage.write("3")];
    const { said, options } = witnesses();
    const stubborn = {
      ...storage,
      remove: (path: string) => (path === two ? Promise.reject(new Error("held")) : storage.remove(path)),
    };
    expect(await cleanupOffloadedFiles(stubborn, new Set([one]), options.log)).toEqual([three]);
    expect(said).toEqual([expect.stringMatching(new RegExp(`^warn: .*${two}`))]);
    expect(await storage.list()).toEqual([one, two]);
  });
});

describe("attempts", () => {
  test("each failure is a warning, the next waits n seconds, and the last is an error", async () => {
    const { said, waits, options } = witnesses();
    const { it, summarizer } = compactor(() => failingAnswer("bad-request"), options);
    const messages = talk(9);
    const outcome = await it.compact(messages);
    expect(outcome).toMatchObject({ success: false, messages, freedTokens: 0, deletedFiles: [] });
    expect(summarizer.requests).toHaveLength(3);
    expect(waits).toEqual([1_000, 2_000]);
    expect(said).toEqual([
      "warn: Compact summary attempt 1 failed",
      "warn: Compact summary attempt 2 failed",
      "warn: Compact summary attempt 3 failed",
      "error: Compaction failed, history unchanged",
    ]);
  });

  test("the second may succeed", async () => {
    const { said, waits, options } = witnesses();
    const { it } = compactor([failingAnswer("overloaded"), SUMMARY], options);
    expect(await it.compact(talk(9))).toMatchObject({ success: true });
    expect([said, waits]).toEqual([["warn: Compact summary attempt 1 failed"], [1_000]]);
  });

  test("retryCount counts all of them", async () => {
    const { options } = witnesses();
    const { it, summarizer } = compactor(() => failingAnswer("failed"), { ...options, retryCount: 1 });
    expect(await it.compact(talk(9))).toMatchObject({ success: false });
    expect(summarizer.requests).toHaveLength(1);
  });

  test("an answer cut off at the limit is a failed attempt; a complete one above the target is not", async () => {
    const { said, options } = witnesses();
    const long = `${SUMMARY}\n${"word ".repeat(2_000)}`.trim();
    const { it } = compactor([cutOffAnswer(), long], { ...options, targetTokens: 256 });
    const { messages } = await it.compact(talk(9));
    expect(messages[0]).toMatchObject({ content: `[Compressed History]\n\n${long}` });
    expect(said).toEqual(["warn: Compact summary attempt 1 failed"]);
  });

  test("a summary in another language is accepted at the first attempt, and its missing headings are reported", async () => {
    const { options, said } = witnesses();
    const { it, summarizer } = compactor("## 技术背景\nNode 20\n\n## Key Decisions\n- 用 vitest", options);
    const result = await it.compact(talk(12));
    expect(result).toMatchObject({ success: true, preservedCount: 5 });
    expect(result.missingSections).toEqual(COMPACT_SUMMARY_SECTIONS.slice(0, -1));
    expect([summarizer.requests.length, said]).toEqual([1, []]);
    expect(await compactor(SUMMARY, options).it.compact(talk(12))).not.toHaveProperty("missingSections");
  });

  test("an abort ends the attempts at once, even between two of them, and is thrown", async () => {
    const { said, options } = witnesses();
    const stop = new AbortController();
    const { log } = options;
    const { it } = compactor(() => failingAnswer("overloaded"), { log: log!, signal: stop.signal });
    const running = it.compact(talk(9));
    setTimeout(() => stop.abort(), 20);
    await expect(running).rejects.toMatchObject({ code: "aborted" });
    expect(said).toEqual(["warn: Compact summary attempt 1 failed"]);
  });
});

describe("a whole compaction", () => {
  test("has the order: split, restore, summarize, build, commit, delete, notify", async () => {
    const order: string[] = [];
    const storage = memoryOffloadStorage();
    const old = await storage.write("the old content");
    const kept = await storage.write("the kept content");
    const watched = {
      ...storage,
      read(path: string) {
        order.push("restore");
        return storage.read(path);
      },
      remove(path: string) {
        order.push("delete");
        return storage.remove(path);
      },
    };
    const summarizer = scriptedSummarizer(() => {
      order.push("summarize");
      return SUMMARY;
    });
    const history: ContextMessage[] = [
      calling("x"),
      result("x", `Tool result is at: ${old}`),
      ...talk(2),
      calling("y"),
      result("y", `Tool result is at: ${kept}`),
      ...talk(3),
    ];
    let told: CompactResult | undefined;
    const it = new ContextCompactor(watched, summarizer, {
      commit: async () => void order.push("commit"),
      notify: (outcome) => {
        order.push("tell");
        told = outcome;
      },
    });
    const outcome = await it.compact(history);
    expect(order).toEqual(["restore", "summarize", "commit", "delete", "tell"]);
    expect(told).toBe(outcome);
    expect(outcome).toMatchObject({ success: true, preservedCount: 5, deletedFiles: [old] });
    expect(outcome.messages.slice(1)).toEqual(history.slice(4));
    expect(outcome.freedTokens).toBe(outcome.previousTokens - outcome.currentTokens);
    expect(summarizer.requests[0]!.transcript).toContain("the old content");
    expect(await storage.list()).toEqual([kept]);
  });

  test("of at most five messages succeeds, and frees, requests and writes nothing", async () => {
    for (const messages of [talk(5), []]) {
      const { it, summarizer } = compactor(SUMMARY, { commit: () => Promise.reject(new Error("written")) });
      expect(await it.compact(messages)).toMatchObject({ success: true, freedTokens: 0, messages });
      expect(summarizer.requests).toEqual([]);
    }
  });

  test("skips restoring if nothing is offloaded", async () => {
    const reading = { ...memoryOffloadStorage(), read: () => Promise.reject(new Error("read")) };
    const it = new ContextCompactor(reading, scriptedSummarizer(SUMMARY));
    expect(await it.compact(talk(9))).toMatchObject({ success: true });
  });

  test("is aborted by a failed commit, and keeps every file", async () => {
    const { it, storage } = compactor(SUMMARY, { commit: () => Promise.reject(new Error("disk full")) });
    const path = await storage.write("content");
    await expect(it.compact(talk(9))).rejects.toThrow("disk full");
    expect(await storage.list()).toEqual([path]);
  });

  test("warns after a failed listing of files, and still reports the committed result", async () => {
    const { said, options } = witnesses();
    const closed = { ...memoryOffloadStorage(), list: () => Promise.reject(new Error("not allowed")) };
    const it = new ContextCompactor(closed, scriptedSummarizer(SUMMARY), options);
    expect(await it.compact(talk(9))).toMatchObject({ success: true, deletedFiles: [] });
    expect(said).toEqual([expect.stringMatching(/^warn: Offloaded files could not be listed/)]);
  });

  test("can name a model, which is requested from the factory of summarizers", async () => {
    const asked: (string | undefined)[] = [];
    const pick = (model: string | undefined) => {
      asked.push(model);
      return scriptedSummarizer(SUMMARY);
    };
    await new ContextCompactor(memoryOffloadStorage(), pick, { model: "small" }).compact(talk(9));
    await new ContextCompactor(memoryOffloadStorage(), pick).compact(talk(9));
    expect(asked).toEqual(["small", undefined]);
  });
});
