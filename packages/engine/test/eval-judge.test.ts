import {
  CATEGORIES,
  evaluate,
  forecastJudgement,
  type JudgeOptions,
  reportPage,
} from "@espalier/engine/eval";
import { openai } from "@espalier/engine/openai";
import { type OpenaiReply, type OpenaiServer, startOpenaiServer } from "@espalier/engine/testing";
import type { StoredMessage } from "@espalier/session-tree";
import { type Summarizer, summarizer, unescapeText } from "@espalier/summarizer";
import OpenAI from "openai";
import { afterEach, describe, expect, test } from "vitest";

const user = (content: string): StoredMessage => ({ role: "user", content, timestamp: 0 });
const answer = (text: string): StoredMessage => ({
  role: "assistant",
  content: [{ type: "text", text }],
  provider: "test",
  model: "test",
  stopReason: "stop",
  timestamp: 0,
});
const filler = (from: number, count: number): StoredMessage[] =>
  Array.from({ length: count }, (_, at) => [
    user(`Please look at item ${from + at}`),
    answer(`Item ${from + at} is plain. ${"It has been looked at for a while. ".repeat(20)}`),
  ]).flat();

/** A fact of each category: its passage in the session, another wording, and the word by which the scripted judge knows it. */
const FACTS = [
  {
    category: "request",
    quote: "I want the importer to accept gzip files.",
    word: "gzip",
    other: "Asked for: gzip input.",
  },
  {
    category: "rule",
    quote: "Never touch the billing tables.",
    word: "billing",
    other: "The billing tables are off limits.",
  },
  {
    category: "decision",
    quote: "We stream instead of buffering, because memory is short.",
    word: "stream",
    other: "Chosen for lack of memory: stream.",
  },
  {
    category: "failed",
    quote: "Trying zlib bindings failed: no compiler on the server.",
    word: "zlib",
    other: "zlib was tried in vain, a compiler lacks.",
  },
  {
    category: "finding",
    quote: "The root cause is a missing flush in the writer.",
    word: "flush",
    other: "Cause: no flush.",
  },
  {
    category: "state",
    quote: "The parser is done, the tests are red.",
    word: "parser",
    other: "parser ready, tests not.",
  },
  {
    category: "next",
    quote: "Next I will write the migration guide.",
    word: "migration",
    other: "To do: migration guide.",
  },
] as const;

const CALL: StoredMessage[] = [
  {
    role: "assistant",
    content: [{ type: "toolCall", id: "c1", name: "read", arguments: { path: "docs/guide.md" } }],
    provider: "test",
    model: "test",
    stopReason: "toolUse",
    timestamp: 0,
  },
  {
    role: "toolResult",
    toolCallId: "c1",
    toolName: "read",
    content: [{ type: "text", text: "# Guide" }],
    isError: false,
    timestamp: 0,
  },
];

/** The facts, a long middle, and calls wherever the session is cut. */
const session: StoredMessage[] = [
  ...FACTS.flatMap(({ quote }, at) => [user(`Point ${at}`), answer(quote)]),
  ...Array.from({ length: 16 }, (_, at) => [
    ...filler(at * 2, 2),
    ...CALL.map((message) => numbered(message, at)),
  ]).flat(),
];
function numbered(message: StoredMessage, at: number): StoredMessage {
  return JSON.parse(JSON.stringify(message).replaceAll('"c1"', `"c${at + 10}"`)) as StoredMessage;
}

const everything = summarizer(
  ({ messages }) => messages.map((message) => JSON.stringify(message)).join("\n"),
  { name: "everything" },
);
const saying = (name: string, lines: readonly string[]): Summarizer =>
  summarizer(() => lines.join("\n"), { name });
const paraphrase = saying(
  "paraphrase",
  FACTS.map(({ other }) => other),
);
const undecided = saying(
  "undecided",
  FACTS.flatMap(({ category, other }) => (category === "decision" ? [] : [other])),
);

/** Texts of a request to the judge. */
const textsOf = (body: Record<string, unknown>) => {
  const messages = body["messages"] as { role: string; content: string | { text: string }[] }[];
  const said = messages.map(({ content }) =>
    typeof content === "string" ? content : content.map(({ text }) => text).join(""),
  );
  return { system: said[0]!, task: said.at(-1)! };
};

/** A judge that follows a script: it knows the facts by their words. */
function scripted(task: string): unknown {
  if (task.includes("Write questions")) {
    const record = unescapeText(task);
    return [
      ...FACTS.filter(({ quote }) => record.includes(quote)).map(({ category, quote, word }) => ({
        category,
        question: `Tell about ${word}?`,
        answer: `It is ${word}`,
        quote,
      })),
      {
        category: "finding",
        question: "Tell about unicorns?",
        answer: "Pink",
        quote: "The unicorns are pink and many.",
      },
      {
        category: "state",
        question: "Tell about item?",
        answer: "It is item",
        quote: "Item 0 is plain. It has been",
      },
      { category: "beauty", question: "Is it?", answer: "Yes", quote: "Item 0 is plain." },
      "nonsense",
    ];
  }
  if (task.includes("<questions>")) {
    const [text = "", questions = ""] = task.split("<questions>");
    return [...questions.matchAll(/^(q\d+): Tell about (\w+)\?/gm)].map(([, id, word]) => ({
      id,
      answer: text.toLowerCase().includes(word!) ? `It is ${word}` : "unknown",
    }));
  }
  if (task.includes("<answers>"))
    return [...task.matchAll(/^(a\d+)\n {2}question: .*\n {2}expected: (.*)\n {2}answer: (.*)$/gm)].map(
      ([, id, expected, given]) => ({ id, grade: expected === given ? 1 : 0 }),
    );
  return { tool: "read", arguments: { path: "docs/guide.md" } };
}

let server: OpenaiServer | undefined;
afterEach(async () => {
  await server?.close();
  server = undefined;
});

/** A strict server with a script; the judge that asks it. */
async function judgeWith(
  reply: (task: string, n: number) => string = (task) => JSON.stringify(scripted(task)),
): Promise<JudgeOptions> {
  server = await startOpenaiServer(({ body }, n): OpenaiReply => ({ text: reply(textsOf(body).task, n) }));
  const client = new OpenAI({ apiKey: "none", baseURL: server.url, maxRetries: 0 });
  return { provider: openai(client, { model: "scripted" }) };
}

const evaluated = (judge: JudgeOptions, summarizers: readonly Summarizer[] = []) =>
  evaluate([{ name: "s", messages: session }], { policies: [], summarizers, keepTokens: 200, judge });

const PRICES = { scripted: { input: 1, output: 1, cacheRead: 1, cacheWrite: 1 } };

describe("a judge", () => {
  test("gives everything 1, nothing 0, a paraphrase as much as the original; left out facts are listed as lost", async () => {
    const report = await evaluated(await judgeWith(), [everything, paraphrase, undecided]);
    expect(server!.requests.flatMap(({ problems }) => problems)).toEqual([]);
    const [judged] = report.judged!;
    expect(judged).toMatchObject({ judge: "openai:scripted", probes: 7, empty: 0, full: 1, rubbish: 0 });
    const row = (name: string) => judged!.rows.find(({ summarizer: by }) => by === name)!;
    expect(row("everything")).toMatchObject({ score: 1, lost: [] });
    expect(row("paraphrase")).toMatchObject({ score: 1, lost: [] });
    expect(row("undecided").score).toBeCloseTo(6 / 7, 2);
    expect(row("undecided").categories).toMatchObject({ decision: 0, rule: 1 });
    expect(row("undecided").lost).toEqual([{ category: "decision", question: "Tell about stream?" }]);
    expect(Object.keys(row("extractive").categories)).toEqual([...CATEGORIES]);
    expect(judged!.spent.requests).toBe(server!.requests.length);
  });

  test("drops and counts questions without a literal quotation, unreadable ones, and those that the kept messages answer", async () => {
    const report = await evaluated(await judgeWith(), [paraphrase]);
    // "Item" is in every message, the kept ones too.
    expect(report.judged![0]!.dropped).toEqual({ unquoted: 1, unreadable: 2, inTail: 1, ungraded: 0 });
  });

  test("writes its questions before it sees a summary, and grades without knowing the source of an answer", async () => {
    await evaluated(await judgeWith(), [paraphrase, undecided]);
    const tasks = server!.requests.map(({ body }) => textsOf(body).task);
    expect(tasks[0]).toContain("Write questions");
    expect(tasks[0]).not.toContain(FACTS[0].other);
    const grading = tasks.filter((task) => task.includes("<answers>"));
    for (const task of grading) {
      expect(task).not.toMatch(/paraphrase|undecided|extractive|empty|tail|q\d/);
      const questions = [...task.matchAll(/question: (.*)/g)].map(([, question]) => question);
      expect(questions).not.toEqual(
        [...questions].sort((a, b) => questions.indexOf(a) - questions.indexOf(b)),
      );
    }
    const order = (all: string[]) => all.filter((task) => task.includes("<answers>")).join("\n");
    const again = async (seed: number) => {
      await server!.close();
      await evaluated({ ...(await judgeWith()), seed }, [paraphrase, undecided]);
      return order(server!.requests.map(({ body }) => textsOf(body).task));
    };
    expect(await again(1)).toBe(order(tasks));
    expect(await again(2)).not.toBe(order(tasks));
  });

  test("compares its proposed call with the recorded one", async () => {
    const proposing = async (call: unknown) => {
      await server?.close();
      const judge = await judgeWith((task) =>
        task.includes("Name the one tool call") ? JSON.stringify(call) : JSON.stringify(scripted(task)),
      );
      return (await evaluated(judge)).judged![0]!.rows[0]!.next;
    };
    expect(await proposing({ tool: "Read", arguments: { file: "docs/guide.md" } })).toBe(1);
    expect(await proposing({ tool: "read", arguments: { path: "src/other.ts" } })).toBe(0.5);
    expect(await proposing({ tool: "bash", arguments: { command: "ls" } })).toBe(0);
    expect(await proposing("I would read it")).toBeNull();
  });

  test("with unreadable answers is asked once more, and then not counted", async () => {
    const confused = await judgeWith((task) =>
      task.includes(FACTS[0].other) ? "I would love to help! [ {" : JSON.stringify(scripted(task)),
    );
    const [judged] = (await evaluated(confused, [paraphrase])).judged!;
    // Answering from the paraphrase and proposing a call, twice each.
    expect(judged).toMatchObject({ rubbish: 2, probes: 0, dropped: { ungraded: 7 } });
    expect(judged!.rows.every(({ score }) => score === null)).toBe(true);
    await server!.close();
    const [none] = (await evaluated(await judgeWith(() => "42"))).judged!;
    expect(none).toMatchObject({ probes: 0, full: null, empty: null });
    expect(none!.rubbish).toBeGreaterThan(0);
    await server!.close();
    const wordy = await judgeWith(
      (task) => `Sure:\n\`\`\`json\n${JSON.stringify(scripted(task))}\n\`\`\`\nDone.`,
    );
    expect((await evaluated(wordy)).judged![0]).toMatchObject({ probes: 7, rubbish: 0 });
  });

  test("whose grades are missing or invalid loses only those questions", async () => {
    const judge = await judgeWith((task) => {
      const value = scripted(task);
      if (!task.includes("<answers>")) return JSON.stringify(value);
      const grades = value as { id: string; grade: unknown }[];
      return JSON.stringify(grades.map((one, at) => (at === 0 ? { ...one, grade: "good" } : one)));
    });
    const [judged] = (await evaluated(judge)).judged!;
    expect(judged!.dropped.ungraded + judged!.dropped.inTail + judged!.probes).toBe(8);
    expect(judged!.dropped.ungraded).toBeLessThanOrEqual(1);
  });

  test("stops before it exceeds the maximum cost", async () => {
    const judge = { ...(await judgeWith()), prices: PRICES, maxCost: 0.000_5 };
    await expect(evaluated(judge)).rejects.toMatchObject({ code: "over-budget" });
    expect(server!.requests.length).toBeLessThan(3);
  });

  test("has a forecast: about the real number of requests", async () => {
    const judge = await judgeWith();
    const forecast = forecastJudgement(session, 2, { ...judge, keepTokens: 200 });
    await evaluated(judge, [paraphrase]);
    expect(forecast.requests).toBeGreaterThanOrEqual(server!.requests.length);
    expect(forecast.requests).toBeLessThan(server!.requests.length * 2);
    expect(forecastJudgement([user("hi")], 2, judge).requests).toBe(0);
  });

  test("reads a history longer than its window in parts", async () => {
    const judge = await judgeWith();
    const small = { ...judge.provider, contextWindow: 4_000 };
    const [judged] = (await evaluated({ provider: small }, [paraphrase])).judged!;
    expect(judged).toMatchObject({ full: 1, empty: 0, rubbish: 0 });
    const written = server!.requests.filter(({ body }) => textsOf(body).task.includes("Write questions"));
    expect(written.length).toBeGreaterThan(1);
  });
});

test("a page has the figures, needs no script, and escapes the text of sessions", async () => {
  const hostile = [
    ...session,
    user("never use <script>alert(1)</script> in pages"),
    answer("ok"),
    ...filler(90, 30),
  ];
  const report = await evaluate([{ name: "<b>s</b>", messages: hostile }], {
    policies: ["token-budget"],
    keepTokens: 200,
    judge: await judgeWith(),
  });
  const page = reportPage(report);
  expect(page).toMatch(/^<!doctype html>/);
  expect(page).not.toMatch(/<script|<b>|https?:/);
  expect(page.match(/<svg /g)!.length).toBe(2);
  expect(page).toContain("prefers-color-scheme: dark");
  expect(page).toContain("judged by openai:scripted");
  expect(page).toMatch(/<td>token-budget<\/td><td>extractive<\/td>/);
  expect(reportPage(report)).toBe(page);
  expect(reportPage({ mean: [], sessions: [] })).toContain("No session could be measured.");
  for (const [, number] of page.matchAll(/\s(?:cx|cy|x|y|width|height)="([^"]*)"/g))
    expect(Number(number)).not.toBeNaN();
});
