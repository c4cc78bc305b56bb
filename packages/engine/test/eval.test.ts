import { type EvaluatedSession, evaluate, type Row } from "@espalier/engine/eval";
import type { ContextMessage, StoredMessage } from "@espalier/session-tree";
import { summarizer, summaryError } from "@espalier/summarizer";
import { describe, expect, test } from "vitest";
import { writtenSession } from "./written-session.ts";

const queue = writtenSession("code-mode");
const shop = writtenSession("korean");
const search = writtenSession("chinese");

const user = (content: string): StoredMessage => ({ role: "user", content, timestamp: 0 });
const answer = (text: string): StoredMessage => ({
  role: "assistant",
  content: [{ type: "text", text }],
  provider: "test",
  model: "test",
  stopReason: "stop",
  timestamp: 0,
});
let calls = 0;
const call = (command: string, output: string): StoredMessage[] => {
  const id = `c${++calls}`;
  return [
    {
      ...answer(""),
      role: "assistant",
      content: [{ type: "toolCall", id, name: "bash", arguments: { command } }],
      stopReason: "toolUse",
    } as StoredMessage,
    {
      role: "toolResult",
      toolCallId: id,
      toolName: "bash",
      content: [{ type: "text", text: output }],
      isError: false,
      timestamp: 0,
    },
  ];
};

/** Turns that say nothing of interest, each with a number of its own. */
const filler = (from: number, count: number): StoredMessage[] =>
  Array.from({ length: count }, (_, at) => [
    user(`Please look at item ${from + at}`),
    answer(`Item ${from + at} is plain. ${"It has been looked at for a while. ".repeat(20)}`),
  ]).flat();

const texts = (text: string) => summarizer(() => text, { name: "given" });
const rowOf = (rows: readonly Row[], summarizerName: string, policy: Row["policy"] = null): Row =>
  rows.find((row) => row.summarizer === summarizerName && row.policy === policy)!;

/** Evaluates one session with a summary that is always the same text. */
async function measured(messages: readonly ContextMessage[], text: string) {
  const report = await evaluate([{ name: "s", messages }], {
    policies: ["token-budget"],
    summarizers: [texts(text)],
    keepTokens: 200,
  });
  const [session] = report.sessions;
  const detailed = session!.rows.find((row) => row.summarizer === "given" && row.policy === null)!;
  return { session: session!, row: detailed, rows: session!.rows };
}

describe("the ends of the scale", () => {
  test("a full summary has everything, an empty one nothing", async () => {
    const { mean } = await evaluate([{ name: "queue", messages: queue }], { policies: ["token-budget"] });
    const all = rowOf(mean, "identity");
    expect(all).toMatchObject({
      reach: 1,
      user: 1,
      found: 1,
      state: 1,
      rules: 1,
      invented: 0,
      refetch: 0,
    });
    expect(rowOf(mean, "empty")).toMatchObject({
      reach: 0,
      user: 0,
      found: 0,
      state: 0,
      prec: null,
    });
    // A rule whose message is kept needs no summary.
    expect(rowOf(mean, "empty").rules).toBeLessThan(0.5);
    const ours = rowOf(mean, "extractive", "token-budget");
    expect(ours.found).toBeGreaterThan(rowOf(mean, "newest", "token-budget").found!);
    expect(ours.rules).toBe(1);
    expect(ours.price).toBeLessThan(all.price! * 0.75);
  });

  test("a bare list has a high `dump`, and reaches its names", async () => {
    const { mean } = await evaluate([{ name: "queue", messages: queue }], { policies: [] });
    const list = rowOf(mean, "frequency");
    expect(list.dump).toBeGreaterThan(0.8);
    expect(list.reach).toBeGreaterThan(0.8);
    expect(list.found).toBeLessThan(0.3);
  });

  test("a report is the same each time, and has no time or place", async () => {
    const sessions: EvaluatedSession[] = [
      { name: "shop", messages: shop },
      { name: "search", messages: search },
    ];
    const first = await evaluate(sessions, { policies: ["sliding-window", "pressure"] });
    const second = await evaluate(sessions, { policies: ["sliding-window", "pressure"] });
    expect(JSON.stringify(second)).toBe(JSON.stringify(first));
    expect(JSON.stringify(first)).not.toMatch(/20\d\d-\d\d-\d\dT/);
  });

  test("summaries in languages without spaces between words are distinguished", async () => {
    for (const messages of [shop, search]) {
      const { mean } = await evaluate([{ name: "s", messages }], { policies: ["token-budget"] });
      expect(rowOf(mean, "extractive").found).toBeGreaterThan(0.8);
      expect(rowOf(mean, "extractive", "token-budget").found).toBeGreaterThan(0.8);
      expect(rowOf(mean, "empty", "token-budget").found).toBeLessThan(0.2);
    }
  });
});

describe("rules", () => {
  const session = [
    ...filler(0, 12),
    user("From now on never push to the main branch."),
    answer("Understood."),
    ...filler(20, 30),
  ];

  test("are lost in the round whose summary lacks them, and are kept by the core's block", async () => {
    const { rows } = await measured(session, "## Goal\nItems are looked at.");
    const atOnce = rows.find((row) => row.summarizer === "given" && row.policy === null)!;
    expect(atOnce.rules).toBe(0);
    const [fallen] = atOnce.ruleFigures.fallen;
    expect(fallen).toMatchObject({ text: expect.stringContaining("never push to the main branch") });
    expect(fallen!.fell).toBeGreaterThanOrEqual(fallen!.stated);
    const under = rows.find((row) => row.summarizer === "given" && row.policy === "token-budget")!;
    expect(under.rules).toBe(1);
    expect(under.ruleFigures.fallen).toEqual([]);
  });

  test("are kept by a summary that words them almost the same", async () => {
    const { row } = await measured(
      session,
      "- from now on, the agent must never push to the **main branch**",
    );
    expect(row.rules).toBe(1);
  });
});

describe("values that changed", () => {
  const session = [
    user("Set up the service."),
    answer('It runs with RETRY_LIMIT = 3 for now, and "poolSize": 10 as before.'),
    ...filler(0, 14),
    user("More retries please."),
    answer("Changed to RETRY_LIMIT = 8, since three were too few for the network."),
    ...filler(40, 30),
  ];

  test.each([
    ["RETRY_LIMIT = 8", { current: 1, stale: 0 }],
    ["RETRY_LIMIT went from 3 to 8", { current: 1, stale: 0 }],
    ["RETRY_LIMIT is 3", { current: 0, stale: 1 }],
    ["RETRY_LIMIT is 38", { current: 0, stale: 0 }],
    ["nothing of it", { current: 0, stale: 0 }],
  ])("%j", async (text, figures) => {
    const { row } = await measured(session, text);
    // In the first rounds the value has not changed yet, and nothing is asked.
    expect(row).toMatchObject(figures);
  });
});

describe("a name or number that is not in the session", () => {
  test("is an invention: names, paths and numbers", async () => {
    const session = [user("Look at src/real/file.ts, it has 4711 lines."), ...filler(0, 40)];
    const text =
      "## Files\nsrc/real/file.ts has 4711 lines, src/made/up.ts has 9876, and makeItUp runs (12 more).";
    const { row } = await measured(session, text);
    expect(row.inventions).toEqual(["9876", "makeItUp", "src/made/up.ts"]);
    expect(row.invented).toBe(3);
  });
});

describe("the cost after a compaction", () => {
  test("counts results that are fetched again, except those in the summary", async () => {
    const line = "the schema of the table has eleven columns and two keys";
    const session = [
      user("go"),
      ...call("describe table", line),
      ...filler(0, 20),
      ...call("describe table", line),
      ...filler(40, 30),
    ];
    const without = await measured(session, "nothing");
    const having = await measured(session, `It is known that ${line}.`);
    expect(without.row.refetch).toBeGreaterThan(0);
    expect(having.row.refetch).toBe(0);
  });

  test("grows with the size of the next requests", async () => {
    const session = [...filler(0, 40)];
    const short = await measured(session, "short");
    const long = await measured(session, "a long summary that says little ".repeat(200));
    expect(long.row.price).toBeGreaterThan(short.row.price!);
  });
});

describe("a session with too little after its cuts", () => {
  /** Sessions in which the last messages write names of the first ones again. */
  const written = (names: readonly string[]) => [
    user("Look at src/alpha.ts, src/beta.ts and src/gamma.ts"),
    ...call("cat src/alpha.ts src/beta.ts src/gamma.ts", "one\ntwo"),
    ...filler(0, 40),
    ...call(`wc -l ${names.join(" ")}`, "3"),
    answer(`Counted ${names.join(" ")}.`),
  ];

  test("has no figures about later names, instead of 0", async () => {
    const { session, row } = await measured(written(["src/alpha.ts", "src/beta.ts"]), "src/alpha.ts");
    expect(row).toMatchObject({ reach: null, prec: null });
    expect(session.unmeasured).toMatch(/^There is no reach and no prec /);
    expect(row.user).not.toBeNull();
  });

  test("has figures from three names on, also when the summary has none of them", async () => {
    const names = ["src/alpha.ts", "src/beta.ts", "src/gamma.ts"];
    const { session, row } = await measured(written(names), "src/alpha.ts and src/delta.ts");
    expect(row.reach).toBeCloseTo(1 / 3);
    expect(row.prec).toBe(0.5);
    expect(session.unmeasured).toBeNull();
    expect((await measured(written(names), "src/delta.ts")).row.prec).toBe(0);
  });
});

describe("unsuitable sessions and summarizers", () => {
  test("a session that is too short to cut gives a sentence", async () => {
    const report = await evaluate([{ name: "s", messages: [user("hi"), answer("hello")] }]);
    expect(report.mean).toEqual([]);
    expect(report.sessions[0]).toMatchObject({
      rows: [],
      skipped: expect.stringMatching(/too short to cut: it has 2 messages/),
    });
    expect((await evaluate([])).sessions).toEqual([]);
  });

  test("a session without a user's turn has a score, with no figures about users", async () => {
    const messages = filler(0, 60).filter(({ role }) => role === "assistant");
    const { row } = await measured(messages, "Item 3 is plain.");
    expect(row).toMatchObject({ user: null, rules: null });
    expect(row.tokens).toBeGreaterThan(0);
  });

  test("sessions in ten languages have a score", async () => {
    const said = [
      "Bitte niemals direkt nach main pushen",
      "Ne jamais pousser sur main",
      "nunca hagas push a main",
      "никогда не пушь в main",
      "절대 main 브랜치에 푸시하지 마세요",
      "不要直接推到 main 分支",
      "main に直接プッシュしないでください",
      "لا تدفع إلى الفرع الرئيسي",
      "main में सीधे पुश न करें",
      "never push to main",
    ];
    const messages = said.flatMap((text, at) => [user(text), answer(text), ...filler(at * 10, 4)]);
    const { row } = await measured(messages, said.join("\n"));
    expect(row.user).toBe(1);
  });

  test.each([
    ["letters", "a".repeat(5_000_000)],
    ["hyphens", "a-".repeat(2_500_000)],
    ["Chinese", "测试".repeat(2_500_000)],
  ])(
    "a message of five million characters has a score: %s",
    async (_, long) => {
      const messages = [...filler(0, 20), user(long), answer("That was long."), ...filler(40, 20)];
      const report = await evaluate([{ name: "s", messages }], {
        policies: ["token-budget"],
        keepTokens: 200,
      });
      expect(rowOf(report.mean, "extractive").tokens).toBeGreaterThan(0);
    },
    600_000,
  );

  test("messages with missing or odd fields are read as far as possible", async () => {
    const odd = [
      { role: "assistant" },
      { role: "user", content: null },
      { role: "assistant", content: [{ type: "toolCall", id: 7, name: null, arguments: "text" }] },
      { role: "toolResult", toolCallId: 7, content: 12 },
      { role: "bashExecution" },
      { role: "future", content: "?" },
    ] as unknown as ContextMessage[];
    const { row } = await measured([...odd, ...filler(0, 40), ...odd], "Item 1");
    expect(row.rounds).toBeGreaterThan(0);
  });

  test("a failing summarizer gives a sentence in its row, and the others are measured", async () => {
    const failing = summarizer(
      () => {
        throw summaryError("failed", "The disk is full.");
      },
      { name: "failing" },
    );
    const { sessions, mean } = await evaluate([{ name: "queue", messages: queue }], {
      policies: ["token-budget"],
      summarizers: [failing],
    });
    const rows = sessions[0]!.rows.filter((row) => row.summarizer === "failing");
    expect(rows).toHaveLength(2);
    for (const row of rows)
      expect(row).toMatchObject({
        rounds: 0,
        found: null,
        tokens: null,
        problem: expect.stringContaining("The disk is full."),
      });
    expect(rowOf(mean, "extractive", "token-budget").found).toBeGreaterThan(0.8);
  });

  test("an abort ends the evaluation", async () => {
    const signal = AbortSignal.abort(new Error("enough"));
    await expect(evaluate([{ name: "queue", messages: queue }], { signal })).rejects.toThrow();
  });
});

test("a provider's count in the recorded run is not used as the size of the replayed context", async () => {
  const usage = { input: 500_000, output: 10, cacheRead: 0, cacheWrite: 0, totalTokens: 500_010 };
  const played = async (more: object) => {
    const messages = [
      user("Never push to main, whatever happens."),
      answer("I will not."),
      ...filler(0, 60).map((said) => (said.role === "assistant" ? { ...said, ...more } : said)),
    ];
    const { mean } = await evaluate([{ name: "s", messages }], { policies: ["pressure"], keepTokens: 400 });
    return rowOf(mean, "extractive", "pressure");
  };
  const billed = await played({ usage });
  expect(billed.tokens).toBeGreaterThan(0);
  expect(billed).toEqual(await played({}));
});
