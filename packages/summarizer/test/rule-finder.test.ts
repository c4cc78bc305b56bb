import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { contentBlocks, isMessage, messageText, SessionTree } from "@espalier/session-tree";
import { FileLog } from "@espalier/session-tree/node";
import { findRules } from "@espalier/summarizer";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { corpus, corpusLabels, longLabels, type Tally, tally, writtenTurns } from "./rules/labels.ts";

const found = (text: string) => findRules(text).filter(({ kind }) => kind !== "allowed");
/** Found by its words, unlike a refused call, whose line an agent writes. */
const worded = (text: string) => found(text).filter(({ kind }) => kind !== "refused");
const texts = (text: string) => findRules(text).map((rule) => rule.text);

/** Shares of what was found that is labelled, and of what is labelled that was found. */
function scores({ right, wrong, missed }: Tally): { precision: number; recall: number } {
  return { precision: right / (right + wrong.length), recall: right / (right + missed.length) };
}

describe("rules labelled by people before the detector existed", () => {
  test.each(["dev en", "dev ko", "dev zh", "held en", "held ko", "held zh"])("are found in %s", (set) => {
    const counts: Tally = { right: 0, wrong: [], missed: [] };
    for (const turn of writtenTurns(set)) tally(counts, turn, found(turn.text));
    const { precision, recall } = scores(counts);
    expect.soft(precision, `wrong: ${counts.wrong.join(" · ")}`).toBeGreaterThanOrEqual(0.9);
    expect.soft(recall, `missed: ${counts.missed.join(" · ")}`).toBeGreaterThanOrEqual(0.9);
  });

  test.each(["blind en", "blind ko", "blind zh", "sessions"])(
    "are found by another reader's labels in %s",
    (set) => {
      const counts: Tally = { right: 0, wrong: [], missed: [] };
      for (const turn of writtenTurns(set)) tally(counts, turn, worded(turn.text));
      const { precision, recall } = scores(counts);
      expect.soft(precision, `wrong: ${counts.wrong.join(" · ")}`).toBeGreaterThanOrEqual(0.8);
      expect.soft(recall, `missed: ${counts.missed.join(" · ")}`).toBeGreaterThanOrEqual(0.7);
    },
  );

  test("are found in five long sessions by a further reader's labels", async () => {
    const counts: Tally = { right: 0, wrong: [], missed: [] };
    for (const [name, { labels }] of Object.entries(longLabels)) {
      const short = await recordedTurns(repository(`apps/cli/assets/sessions/${name}.jsonl`));
      const turns = (await recordedTurns(repository(`bench/sessions/${name}.jsonl`))).slice(short.length);
      for (const { entryId } of labels) expect(turns.map(({ id }) => id)).toContain(entryId);
      for (const { text, id } of turns)
        tally(counts, { text, labels: labels.filter(({ entryId }) => entryId === id) }, worded(text));
    }
    const { precision, recall } = scores(counts);
    expect.soft(precision, `wrong: ${counts.wrong.join(" · ")}`).toBeGreaterThanOrEqual(0.8);
    expect.soft(recall, `missed: ${counts.missed.join(" · ")}`).toBeGreaterThanOrEqual(0.6);
  });

  test.skipIf(!corpus).each(["own", "blind"] as const)(
    "are found in recorded sessions by %s labels",
    async (reader) => {
      const counts: Tally = { right: 0, wrong: [], missed: [] };
      for (const [name, { labels }] of Object.entries(corpusLabels[reader])) {
        const turns = await recordedTurns(name === "demo" ? DEMO : join(corpus!, name));
        for (const { entryId } of labels) expect(turns.map(({ id }) => id)).toContain(entryId);
        for (const { text, id } of turns)
          tally(
            counts,
            { text, labels: labels.filter(({ entryId }) => entryId === id) },
            reader === "own" ? found(text) : worded(text),
          );
      }
      const { precision, recall } = scores(counts);
      expect.soft(precision, `wrong: ${counts.wrong.join(" · ")}`).toBeGreaterThanOrEqual(0.8);
      expect.soft(recall, `missed: ${counts.missed.join(" · ")}`).toBeGreaterThanOrEqual(0.7);
    },
  );
});

const repository = (path: string) => fileURLToPath(new URL(`../../../${path}`, import.meta.url));
const DEMO = repository("apps/cli/assets/demo-session.jsonl");

/** The user's turns of a session of Pi, or of the lines of one of Claude Code. */
async function recordedTurns(file: string): Promise<{ id: string; text: string }[]> {
  if (file.includes("claude-code")) return claudeCodeTurns(file);
  const session = await SessionTree.open(FileLog.open(file, "read"));
  return session
    .getBranch()
    .flatMap((entry) =>
      isMessage(entry, "user") ? [{ id: entry.id, text: messageText(entry.message) }] : [],
    );
}

function claudeCodeTurns(file: string): { id: string; text: string }[] {
  return readFileSync(file, "utf8")
    .split("\n")
    .flatMap((line) => {
      if (!line.startsWith("{") || !line.endsWith("}")) return [];
      const { type, uuid, message, isMeta, isCompactSummary } = readLine(line);
      if (type !== "user" || !message || !uuid || isMeta || isCompactSummary) return [];
      const blocks = contentBlocks(message);
      const said = blocks.flatMap((block) => (block.type === "text" ? [block.text] : []));
      return said.length > 0 ? [{ id: uuid, text: said.join("\n") }] : [];
    });
}

interface ClaudeCodeLine {
  type?: string;
  uuid?: string;
  message?: { content: unknown };
  isMeta?: boolean;
  isCompactSummary?: boolean;
}

/** Lines of one of these files were damaged before it was published. */
function readLine(line: string): ClaudeCodeLine {
  try {
    return JSON.parse(line) as ClaudeCodeLine;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return {};
  }
}

describe("texts without a rule", () => {
  test.each([
    "can we avoid the second request?",
    "Only for this task: don't add tests.",
    "Don't run the linter, just this once.",
    "I never managed to get this test green myself.",
    "don't worry about the snapshot",
    "no idea why it fails, have a look",
    "the pool must have been exhausted since Tuesday",
    "add a health endpoint, it must return 200",
    "> You must never expose the admin port.",
    "```\nnever do this\n```",
    "<bash-stdout>always use the cache</bash-stdout>",
    'The banner says "never call us before nine", put that on the page.',
    "ERROR must not be empty: NAME",
    '{"note": "never push"}',
    "걱정하지 마세요",
    "캐시를 쓰면 안 되나요?",
    "不用担心那个警告",
    "是不是不应该用缓存？",
    "别人正在改那个文件",
    "of() 도 매번 전체를 거르고요.",
    "배포할 때마다 캐시가 비네요.",
    "그건 안 돼요.",
    "그렇게 하지 마세요",
    "不要这样",
    "우선 방안만 말해 주세요. 아직 고치지 마세요.",
    "先看代码，先别改",
    "Tell me the plan first, but don't change anything yet.",
    "logread not working",
    "search still not showing new notes",
    "nah, you can always invoke git show if you want to see it",
    "Like it can only go back the active branch",
    "Just curious, don't write any files.",
    "No code yet.",
    "Please review her branch, don't change it.",
    "No wait: use the old one.",
    "ok no BindsTo then",
    "a second alarm is right, better twice than never",
    "this plan must be written so that a new session can go on from it",
    "the rest needs to be moved to folders that we keep",
    "빌드 안 돼요.",
    "로그인도 안 됩니다",
    "保存按钮不能用了",
    "夜里的任务总是超时",
    "好，用第三种办法",
    "加一行注释：// 不要在循环里调用",
    "add a comment saying // never call this twice",
    "설계까지만 해 주세요",
    "아니 그 파일 말고 옆에 있는 거요",
    "现在日志不能正常写入。",
  ])("%j", (text) => {
    expect(found(text)).toEqual([]);
  });

  test("the same words inside a closed tag, over any number of lines", () => {
    expect(texts(`<file name="AGENTS.md">\nNever push.\n\nAlways test.\n</file>\nnever rebase`)).toEqual([
      "never rebase",
    ]);
  });
});

describe("a rule is found by its own words:", () => {
  /** Adds a clause that is no rule and has a cue of many, so that the text is read in any case. */
  const expectSameWithCue = (text: string) =>
    expect(findRules(text), text).toEqual(findRules(`${text}\n\nnever mind`));

  test("each clause of the labelled turns, alone", () => {
    const sets = ["dev", "held", "blind"].flatMap((set) => ["en", "ko", "zh"].map((of) => `${set} ${of}`));
    for (const { text } of [...sets, "sessions"].flatMap(writtenTurns))
      for (const clause of text.split(/[.!?,;\n]+/)) expectSameWithCue(clause.trim());
  });

  test("property: any words of rules, in any order", () => {
    const words =
      "all every each any new tests the files must should have to need needs go goes in into gets an uses requires is to belongs lives under stays you can may now again ok fine allowed forget that rule drop we use say here I want expect would like short answers in german answer one at a time everywhere instead stick with my approval at most three lines treat it as keep leave alone only for long from on until session whenever stop pushing avoid prefer rather where possible remember mind ask me first before".split(
        " ",
      );
    const said = fc.array(fc.constantFrom(...words), { minLength: 2, maxLength: 8 });
    fc.assert(
      fc.property(said, (clause) => {
        expectSameWithCue(clause.join(" "));
      }),
      { numRuns: 3_000 },
    );
  });
});

describe("a found rule", () => {
  test("is the clause without the adjacent request, with its position in the text", () => {
    const text = "Great, thanks!\n\nPlease never push to main; then fix the   import.";
    const [rule, ...others] = findRules(text);
    expect(others).toEqual([]);
    expect(rule).toMatchObject({ text: "never push to main", kind: "never" });
    expect(text.slice(...rule!.range)).toBe("never push to main");
  });

  test.each([
    "以后提交的时候，跑一下全部测试",
    "每次改接口的时候，更新一下文档",
    "앞으로 커밋할 때는, 테스트를 돌려 주세요",
  ])("has what to do on the occasion that it names: %s", (text) => {
    expect(texts(text)).toEqual([text]);
  });

  test.each([
    ["원장 형식은 바꾸지 말 것, 새 패키지 추가하지 말 것", 1],
    ["테스트는 매번 새로 만들지 말고요", 1],
    ["이 모듈에서는 항상 세전 금액을 씁니다.", 1],
    ["아직 배포하지 마세요.", 1],
    ["以后不要再这样写注释", 1],
    ["don't push yet", 1],
    ["외부 패키지는 안 됩니다.", 1],
    ["这个目录不能改", 1],
    ["密钥不能提交", 1],
    ["eval 不能用", 1],
    ["이 서버에서 실행은 안 됩니다.", 1],
    ["日期总是用本地时间", 1],
    ["var 말고 const 로 써 주세요", 1],
    ["tabs not spaces", 1],
    ["this folder must only contain generated files", 1],
  ])("%j is one", (text, count) => {
    expect(findRules(text)).toHaveLength(count);
  });

  test.each([
    ["never push", "never"],
    ["From now on, run the linter first.", "always"],
    ["I'd rather have short functions", "preference"],
    ["No, prices are in cents, not in euros.", "correction"],
    ["you can push again now", "allowed"],
    ["[Request interrupted by user for tool use]", "refused"],
  ])("%j is of the kind %s", (text, kind) => {
    expect(findRules(text).map((rule) => rule.kind)).toEqual([kind]);
  });

  test("is one of at most twenty, and in a pasted document only a clause that is stricter than its text counts", () => {
    expect(findRules("never push. ".repeat(50))).toHaveLength(20);
    const document = Array.from({ length: 400 }, (_, at) => `Section ${at}: the value must be set.`).join(
      "\n",
    );
    expect(findRules(`${document}\nFrom now on, ask me first.`)).toHaveLength(1);
  });
});

describe("unusual messages", () => {
  const million = 5_000_000;
  test.each([
    ["of one word", "never ".repeat(million / 6)],
    ["of blanks", `${" ".repeat(million)}never push`],
    ["of tags that are never closed", "<a>".repeat(million / 3)],
    ["of quotation marks", 'never "a '.repeat(million / 9)],
    ["of fences", "```\nnever\n".repeat(million / 10)],
    ["of commas", ", no".repeat(million / 4)],
    ["in Korean", "앞으로는 ".repeat(million / 5)],
    ["in Chinese", "以后每次，".repeat(million / 5)],
    ["of digits", "1".repeat(million)],
    ["of broken pairs", "\ud83d never \udc00".repeat(million / 9)],
  ])("%s, five million characters long, are read", (_, text) => {
    for (const { range } of findRules(text)) expect(range[1]).toBeLessThanOrEqual(text.length);
  });

  test.each([
    ["blanks", " ".repeat(20_000)],
    ["full stops and commas", ".,".repeat(10_000)],
    ["a tag", ` <data>${"x".repeat(20_000)}</data> `],
  ])("with %s between two words have no rule", (_, between) => {
    for (let at = 0; at < 300; at++) expect(findRules(`never mind${between}b${at}`)).toEqual([]);
  });
});
