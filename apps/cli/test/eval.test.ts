import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startOpenaiServer } from "@espalier/engine/testing";
import { describe, expect, test } from "vitest";
import {
  DEMO,
  espalier,
  espalierJson,
  HEADER,
  said,
  sessionOf,
  stateOf,
  temporaryFolder,
} from "./espalier.ts";

const ONE = ["--policy", "token-budget"];

describe("espalier eval", () => {
  test("prints a table of a session, and writes nothing", async () => {
    const before = stateOf(DEMO);
    const { code, stdout, stderr } = await espalier(["eval", DEMO, ...ONE]);
    expect(stderr).toBe("");
    expect(code).toBe(0);
    expect(stdout).toMatch(/^demo-session\n\npolicy +summarizer +tokens +reach +user +found/);
    expect(stdout).toMatch(/\ntoken-budget +extractive +[\d,]+ +[01]\.\d\d/);
    expect(stdout).toMatch(/\nat once +\(identity\) .* 1\.00/);
    expect(stateOf(DEMO)).toBe(before);
  });

  test("without sessions measures the bundled ones, with the same output each time", async () => {
    const first = await espalierJson(["eval", ...ONE]);
    expect(first.code).toBe(0);
    const { mean, sessions, failures } = first.value;
    expect(sessions.map(({ session }: { session: string }) => session)).toEqual([
      "demo-session",
      "chinese",
      "code-mode",
      "gemini",
      "korean",
      "opencode",
    ]);
    expect(failures).toEqual([]);
    expect(mean).toContainEqual(
      expect.objectContaining({ policy: "token-budget", summarizer: "extractive" }),
    );
    expect((await espalier(["eval", ...ONE, "--json"])).stdout).toBe(first.stdout);
  });

  test("says which figures a session cannot have", async () => {
    const session = new URL("../assets/sessions/gemini.jsonl", import.meta.url).pathname;
    const { code, stdout } = await espalier(["eval", session, ...ONE]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/\ntoken-budget +extractive +[\d,]+ +– /);
    expect(stdout).toContain(
      "gemini: There is no reach (–): too few of its names are used again after the cuts.",
    );
  });

  test("exits with 1 when a mean exceeds its limit, and names it", async () => {
    const kept = await espalier(["eval", DEMO, ...ONE, "--floor", "user=0.5", "--ceiling", "dump=0.2"]);
    expect(kept.code).toBe(0);
    const passed = await espalierJson([
      "eval",
      DEMO,
      ...ONE,
      "--floor",
      "found=1.5",
      "--ceiling",
      "tokens=10",
    ]);
    expect(passed.code).toBe(1);
    expect(passed.value.failures).toEqual([
      expect.stringMatching(
        /^found is [01](\.\d+)? under token-budget with extractive: below its floor of 1\.5\.$/,
      ),
      expect.stringMatching(
        /^tokens is \d+(\.\d+)? under token-budget with extractive: above its ceiling of 10\.$/,
      ),
    ]);
  });

  test("exits with 1 when a column with a limit has no figure", async () => {
    const session = new URL("../assets/sessions/gemini.jsonl", import.meta.url).pathname;
    const { code, value } = await espalierJson([
      "eval",
      session,
      ...ONE,
      "--floor",
      "reach=0.1",
      "--ceiling",
      "reach=1",
    ]);
    expect(value.mean.find(({ policy }: { policy: string | null }) => policy !== null).reach).toBeNull();
    expect(code).toBe(1);
    expect(value.failures).toEqual([
      "reach has no figure under token-budget with extractive, so its floor of 0.1 cannot be checked.",
      "reach has no figure under token-budget with extractive, so its ceiling of 1 cannot be checked.",
    ]);
  });

  test("compares a summarizer that is an external program", async () => {
    const folder = temporaryFolder();
    writeFileSync(
      join(folder, "mine.mjs"),
      `let text = ""; for await (const piece of process.stdin) text += piece;
       const { messages, previousSummary = "" } = JSON.parse(text);
       const prompts = messages.filter(({ role }) => role === "user").map(({ content }) => typeof content === "string" ? content : content.map((block) => block.text).join(" "));
       console.log([previousSummary, ...prompts].join("\\n").slice(-6000));`,
    );
    const { code, value } = await espalierJson([
      "eval",
      DEMO,
      ...ONE,
      "--summarizer-command",
      `node ${join(folder, "mine.mjs")}`,
    ]);
    expect(code).toBe(0);
    const row = value.mean.find(
      (one: { policy: string | null; summarizer: string }) =>
        one.policy === null && one.summarizer === "command",
    );
    expect(row.user).toBeGreaterThan(0.9);
    expect(row.isControl).toBe(false);
    const failing = await espalier([
      "eval",
      DEMO,
      ...ONE,
      "--summarizer-command",
      "echo no luck >&2; exit 3",
      "--floor",
      "found=0.1",
    ]);
    expect(failing.code).toBe(1);
    expect(failing.stdout).toContain("Nothing was measured under token-budget with command.");
    expect(failing.stdout).toContain(
      "demo-session, at once with command: The summarizer command ended with 3: no luck.",
    );
    const killed = await espalier(["eval", DEMO, ...ONE, "--summarizer-command", "kill -9 $$"]);
    expect(killed.stdout).toContain("The summarizer command ended with SIGKILL: it printed no reason.");
  }, 120_000);

  test("reports sessions that are too short, and unknown names", async () => {
    const short = sessionOf(HEADER, said("a1", null, "hello"));
    const { code, stdout } = await espalier(["eval", short]);
    expect(code).toBe(1);
    expect(stdout).toMatch(/^session: It is too short to cut: it has 1 message with 2 tokens/);
    const none = sessionOf(HEADER);
    expect((await espalier(["eval", none])).stdout).toMatch(/too short to cut: it has 0 messages/);
    const column = await espalier(["eval", DEMO, "--floor", "beauty=1"]);
    expect(column.code).toBe(2);
    expect(column.stderr).toMatch(/There is no column "beauty"; choose one of tokens, reach, user/);
    const figure = await espalier(["eval", DEMO, "--floor", "found"]);
    expect(figure.code).toBe(2);
    expect(figure.stderr).toContain("Expected a column and a figure, for example found=0.8");
    const policy = await espalier(["eval", DEMO, "--policy", "best"]);
    expect(policy.code).toBe(2);
    expect(policy.stderr).toContain("token-budget");
    const missing = await espalier(["eval", "nowhere.jsonl"]);
    expect(missing.code).toBe(1);
    expect(missing.stderr).toContain("nowhere.jsonl");
  });

  test("writes a page, which replaces an older page but not a session", async () => {
    const folder = temporaryFolder();
    const page = join(folder, "report.html");
    for (let time = 0; time < 2; time++) {
      const { code, value } = await espalierJson(["eval", DEMO, ...ONE, "--html", page]);
      expect(code).toBe(0);
      expect(value.html).toBe(page);
    }
    expect(readFileSync(page, "utf8")).toContain("What a compaction keeps");
    const session = sessionOf(HEADER, said("a1", null, "hello"));
    const before = stateOf(session);
    const refused = await espalier(["eval", DEMO, ...ONE, "--html", session]);
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain("is a session and was not changed; choose another name with --html.");
    expect(stateOf(session)).toBe(before);
  }, 120_000);

  test("is completed with options, files and policies", async () => {
    const offered = async (...words: string[]) =>
      (await espalier(["complete", "--", ...words])).stdout.trimEnd().split("\n");
    expect(await offered("eva")).toEqual([expect.stringMatching(/^eval\t/)]);
    expect(await offered("eval", "./")).toEqual([":files"]);
    expect((await offered("eval", "--policy", "")).map((line) => line.split("\t")[0])).toContain("pressure");
  });
});

describe("espalier eval --judge", () => {
  /** A judge that has one question, answers it with what the text says, and grades by a word. */
  const reply = (task: string): unknown => {
    if (task.includes("Write questions"))
      return [
        {
          category: "rule",
          question: "Which code?",
          answer: "NOAA",
          quote: "never show a number that isn't from NOAA",
        },
      ];
    if (task.includes("<questions>"))
      return [
        {
          id: "q1",
          answer: task.split("<questions>")[0]!.includes("never show a number") ? "NOAA" : "unknown",
        },
      ];
    if (task.includes("<answers>"))
      return [...task.matchAll(/^(a\d+)\n.*\n.*\n {2}answer: (.*)$/gm)].map(([, id, text]) => ({
        id,
        grade: text === "NOAA" ? 1 : 0,
      }));
    return { tool: "read", arguments: {} };
  };

  test("prints its cost first, then the scores; with an impossible limit no model is called", async () => {
    const server = await startOpenaiServer(({ body }) => {
      const messages = body["messages"] as { content: string }[];
      const task = messages.at(-1)!.content;
      const isJudged = /Write questions|<questions>|<answers>|Name the one tool call/.test(task);
      return { text: isJudged ? JSON.stringify(reply(task)) : "## Goal\nTides without a network." };
    });
    const env = { OPENAI_BASE_URL: server.url, OPENAI_API_KEY: undefined };
    const judged = ["eval", DEMO, ...ONE, "--judge", "openai:scripted"];
    try {
      const unknown = await espalier([...judged, "--max-cost", "1"], { env });
      expect(unknown.code).toBe(1);
      expect(unknown.stderr).toContain(
        "No price is known for the judge openai:scripted, so --max-cost cannot be enforced",
      );
      const home = temporaryFolder();
      const price = { input: 1, output: 1, cacheRead: 1, cacheWrite: 1 };
      writeFileSync(join(home, "settings.json"), JSON.stringify({ prices: { "openai/scripted": price } }));
      const priced = { ...env, ESPALIER_HOME: home };
      const dear = await espalier([...judged, "--max-cost", "0.0001"], { env: priced });
      expect(dear.code).toBe(1);
      expect(dear.stderr).toMatch(
        /The judge openai:scripted would cost about \$0\.\d+, more than --max-cost of \$0\.0001; no model was called/,
      );
      expect(server.requests).toEqual([]);
      const both = ["--summarizer", "openai:scripted"];
      const dearer = await espalier([...judged, ...both, "--max-cost", "0.0001"], { env: priced });
      expect(dearer.stderr).toContain(
        "The summarizer openai:scripted and the judge openai:scripted would cost about $",
      );
      const halfKnown = await espalier(
        ["eval", DEMO, ...ONE, ...both, "--judge", "openai:unpriced", "--max-cost", "1"],
        { env: priced },
      );
      expect(halfKnown.stderr).toContain("No price is known for the judge openai:unpriced, so --max-cost");
      expect(server.requests).toEqual([]);
      const { code, stdout, stderr } = await espalier([...judged, "--max-cost", "1"], { env: priced });
      expect(stderr).toMatch(
        /^The judge openai:scripted gets about \d+ requests with about [\d,]+ tokens: about \$0\.\d+\.\n$/,
      );
      expect(code).toBe(0);
      expect(stdout).toContain("demo-session, judged by openai:scripted: 1 question");
      expect(stdout).toMatch(/token-budget +extractive +1\.00/);
      const compared = await espalier([...judged, ...both, "--max-cost", "1"], { env: priced });
      expect(compared.stdout).toContain("\n  lost at once, openai:scripted, rule: Which code?\n");
      const summarized = await espalier(
        ["eval", DEMO, ...ONE, "--summarizer", "openai:scripted", "--max-cost", "1"],
        { env: priced },
      );
      expect(summarized.stderr).toMatch(/^The summarizer openai:scripted gets about \d+ requests/);
      expect(summarized.code).toBe(0);
      expect(summarized.stdout).toMatch(/\ntoken-budget +openai:scripted +\d/);
      expect(server.requests.flatMap(({ problems }) => problems)).toEqual([]);
    } finally {
      await server.close();
    }
  }, 120_000);

  test("needs a key, a model, and figures", async () => {
    const judge = (...words: string[]) =>
      espalier(["eval", DEMO, ...ONE, ...words], {
        env: { OPENAI_API_KEY: undefined, OPENAI_BASE_URL: undefined },
      });
    expect((await judge("--judge", "anthropic")).stderr).toContain(
      "The judge anthropic needs a key: set ANTHROPIC_API_KEY.",
    );
    expect((await judge("--judge", "openai:x")).stderr).toContain("set OPENAI_API_KEY");
    expect((await judge("--judge", "openai:x", "--max-cost", "much")).code).toBe(2);
    expect((await judge("--judge", "openai:x", "--seed", "1.5")).code).toBe(2);
  });
});
