import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import {
  claudeCodeImporter,
  codexImporter,
  exportNative,
  fromAnthropic,
  type NativeAgent,
  type NativeReport,
  nativeAgents,
  piImporter,
  type SessionImporter,
  toAnthropic,
} from "@espalier/interop";
import { bytesView } from "@espalier/jsonl-stream";
import {
  anthropicFormat,
  type ContextMessage,
  compaction,
  contextOfPath,
  type Entry,
  heal,
  memoryStore,
  SessionTree,
} from "@espalier/session-tree";
import { growEntries } from "@espalier/session-tree/testing";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { brokenHistory } from "./broken-history.ts";
import { answer as answered, user } from "./claude-code-lines.ts";
import { message, OTHER, prompt, Rollout, reasoning, THREAD } from "./codex-lines.ts";
import { PNG } from "./format-histories.ts";
import { imported, scratchFolder, writeRollout, writeSession } from "./import-scratch.ts";
import { claudeCodeShape, codexShape } from "./native-lines.ts";

const CORPUS = join(import.meta.dirname, "../../../../shared/corpus");
const IMPORTERS: Record<NativeAgent, () => SessionImporter> = {
  "claude-code": claudeCodeImporter,
  codex: codexImporter,
  pi: piImporter,
};

type Line = Record<string, unknown>;

interface Written {
  report: NativeReport;
  lines: Line[];
  /** Entries of the path that an import of the file gives. */
  again: Entry[];
}

/** Exports a session and reads the file again, without a disk. */
function written(session: SessionTree, agent: NativeAgent, at?: string | null): Written {
  const pieces = exportNative(session, at === undefined ? { agent } : { agent, at });
  const texts: string[] = [];
  let next = pieces.next();
  for (; !next.done; next = pieces.next()) texts.push(next.value);
  const report = next.value;
  const path =
    agent === "codex" ? `rollout-2026-11-21T20-56-57-${report.sessionId}.jsonl` : `${report.sessionId}.jsonl`;
  const view = bytesView(new TextEncoder().encode(texts.join("")));
  const [draft] = IMPORTERS[agent]().read({ path, view, digest: () => "" });
  const byId = new Map<string, Entry>();
  let last = "";
  for (const entry of draft!.entries()) {
    const read: Entry = entry instanceof Uint8Array ? JSON.parse(new TextDecoder().decode(entry)) : entry;
    byId.set(read.id, read);
    if (!["label", "session_info", "usage"].includes(read.type)) last = read.id;
  }
  const again: Entry[] = [];
  for (let entry = byId.get(draft!.leafId ?? last); entry; entry = byId.get(entry.parentId ?? ""))
    again.unshift(entry);
  return { report, lines: texts.map((text) => JSON.parse(text)), again };
}

/** A path as if nothing on it had been compacted. */
const uncompacted = (path: readonly Entry[]) =>
  path.filter((entry) => !compaction.is(entry) && entry.type !== "context_edit");

const MODEL = { provider: "anthropic", modelId: "any" };

/** A request without what differs by design: texts about the agent's surroundings, reasoning, the summary's wording. */
function conversationOf(agent: NativeAgent, path: readonly Entry[]): unknown[] {
  const isOwn = OWN[agent];
  const context = contextOfPath(path);
  const at = context.messages.flatMap((message, index) => {
    const isLeftOut = message.role === "custom" && isOwn(message.customType);
    return isLeftOut ||
      message.role === "system" ||
      (message.role === "bashExecution" && message.excludeFromContext)
      ? []
      : [index];
  });
  const pick = <Item>(list: Item[]): Item[] => at.map((index) => list[index]!);
  const messages = pick(context.messages).map(withoutHeading);
  if (messages.length === 0) return [];
  const picked = {
    ...context,
    messages,
    sources: pick(context.sources),
    prefixChanged: pick(context.prefixChanged),
  };
  // A context without messages has no request.
  if (heal(picked, { format: anthropicFormat, model: MODEL }).length === 0) return [];
  const { messages: request } = toAnthropic(picked, { model: MODEL });
  // A rollout of Codex has no mark of failed results.
  return JSON.parse(
    JSON.stringify(request, (key, value) => (key === "is_error" && agent === "codex" ? undefined : value)),
  );
}

const HEADINGS = [
  /^This session is being continued from[\s\S]*?\n\nSummary:\n/,
  /^Another language model started[\s\S]*?with your own analysis:\n/,
];

function withoutHeading(message: ContextMessage): ContextMessage {
  if (message.role !== "compactionSummary") return message;
  const heading = HEADINGS.find((each) => each.test(message.summary));
  return heading ? withoutHeading({ ...message, summary: message.summary.replace(heading, "") }) : message;
}

/** Texts of users, hidden ones and results of the shell read alike, and adjacent ones are one turn: so do requests. */
const OWN: Record<NativeAgent, (customType: string) => boolean> = {
  "claude-code": (customType) =>
    /^codex\.(developer|.*(environment_context|instructions|skills|permissions))$/.test(customType),
  codex: (customType) => CLAUDE_CONTEXT.test(customType),
  pi: (customType) => OWN["claude-code"](customType) || OWN.codex(customType),
};
const CLAUDE_CONTEXT =
  /^claude-code\.(environment|model|skill_listing|deferred_tools_delta|agent_listing_delta|date|total_tokens_reminder|session_context|remote_session_change|prompt_snapshot|todo_reminder|task_reminder|plan_mode|plan_mode_exit|mcp_instructions_delta|output_style)$/;

/** Faults in pairs of calls and results; none if each call is followed by its result. */
function pairProblems(
  items: readonly { call?: string | undefined; result?: string | undefined }[],
): string[] {
  const problems: string[] = [];
  let open: string[] = [];
  for (const { call, result } of items) {
    if (result !== undefined) {
      if (!open.includes(result)) problems.push(`result ${result} without a call`);
      open = open.filter((id) => id !== result);
    } else if (call !== undefined) open.push(call);
    else {
      if (open.length > 0) problems.push(`${open.join()} without a result`);
      open = [];
    }
  }
  if (open.length > 0) problems.push(`${open.join()} without a result at the end`);
  return problems;
}

/** Pairs in the lines of a file, in order. */
function pairsIn(agent: NativeAgent, lines: readonly Line[]): { call?: string; result?: string }[] {
  // biome-ignore lint/suspicious/noExplicitAny: lines of three agents
  return lines.flatMap((line: any) => {
    if (agent === "codex") {
      const { type, call_id } = line.payload;
      if (line.type === "compacted")
        return [
          {},
          ...pairsIn(
            agent,
            line.payload.replacement_history.map((payload: Line) => ({ type: "response_item", payload })),
          ),
          {},
        ];
      if (line.type !== "response_item" || type === "reasoning") return [];
      return [
        type === "function_call"
          ? { call: call_id }
          : type === "function_call_output"
            ? { result: call_id }
            : {},
      ];
    }
    const content = line.message?.content;
    if (line.type !== "user" && line.type !== "assistant") return line.type === "system" ? [{}] : [];
    if (typeof content === "string") return [{}];
    return content.flatMap((block: Line) =>
      block["type"] === "tool_use"
        ? [{ call: block["id"] }]
        : block["type"] === "tool_result"
          ? [{ result: block["tool_use_id"] }]
          : block["type"] === "text" && line.type === "assistant"
            ? [{}]
            : [],
    );
  });
}

/** Pairs in a context: a file of Pi has edits, which take both halves of a pair out of it. */
const pairsOf = (messages: readonly ContextMessage[]): { call?: string; result?: string }[] =>
  messages.flatMap((message) => {
    if (message.role === "toolResult") return [{ result: message.toolCallId }];
    if (message.role !== "assistant" || ["error", "aborted"].includes(message.stopReason)) return [{}];
    return [
      {},
      ...message.content.flatMap((block) => (block.type === "toolCall" ? [{ call: block.id }] : [])),
    ];
  });

function shapeProblems(agent: NativeAgent, lines: readonly Line[]): string[] {
  return lines.flatMap((line, at) => {
    const shape =
      agent === "claude-code" ? claudeCodeShape(line) : agent === "codex" ? codexShape(line) : undefined;
    const parsed = shape?.safeParse(line);
    return parsed && !parsed.success
      ? [`line ${at + 1}: ${parsed.error.message.slice(0, 400)} ${JSON.stringify(line).slice(0, 300)}`]
      : [];
  });
}

/** A session of these entries. */
async function sessionOf(entries: readonly Entry[], id = "grown"): Promise<SessionTree> {
  const header = {
    type: "session" as const,
    version: 3,
    id,
    timestamp: "2026-01-01T00:00:00.000Z",
    cwd: "/garden",
  };
  const log = await memoryStore().create(
    header,
    entries.map((entry) => JSON.stringify(entry)),
  );
  const session = await SessionTree.open(log);
  await session.load();
  return session;
}

const corpus = existsSync(CORPUS)
  ? readdirSync(CORPUS, { recursive: true })
      .map(String)
      .filter((name) => name.endsWith(".jsonl"))
      .sort()
  : [];

describe.skipIf(corpus.length === 0)("the corpora", () => {
  const isBroken = (name: string) => name.includes("broken");

  test.each(corpus.filter((name) => !name.startsWith("pi")))(
    "%s has the shapes that written lines are checked against",
    (name) => {
      const lines = readFileSync(join(CORPUS, name), "utf8")
        .split("\n")
        .flatMap((line): Line[] => {
          try {
            return [JSON.parse(line)];
          } catch {
            return []; // published files have damaged lines
          }
        });
      const agent = name.startsWith("codex") ? "codex" : "claude-code";
      expect(
        lines.filter((line) => (agent === "codex" ? codexShape(line) : claudeCodeShape(line))).length,
      ).toBeGreaterThan(4);
      // In published sessions a scrubber took parts of ids for card numbers.
      const whole = lines.filter((line) => !JSON.stringify(line).includes("[REDACTED_CARD]"));
      if (!isBroken(name)) expect(shapeProblems(agent, whole)).toEqual([]);
    },
  );

  test.each(corpus)(
    "%s: export and import give the same conversation, or the report lists the differences",
    { timeout: 60_000 },
    async (name) => {
      const { session } = await imported(join(CORPUS, name));
      const path = session.getBranch();
      const origin = session.header?.importedFrom?.agent as NativeAgent;
      for (const agent of nativeAgents) {
        const { report, lines, again } = written(session, agent);
        expect(shapeProblems(agent, lines)).toEqual([]);
        if (agent !== "pi") expect(pairProblems(pairsIn(agent, lines))).toEqual([]);
        expect(conversationOf(agent, again), agent).toEqual(conversationOf(agent, path));
        expect(conversationOf(agent, uncompacted(again)), agent).toEqual(
          conversationOf(agent, uncompacted(path)),
        );
        if (agent === origin) compareEntries(path, again, report);
      }
    },
  );

  /** Each entry that a model reads is there again, with its id and content, or counted by an issue. */
  function compareEntries(
    path: readonly Entry[],
    again: readonly Entry[],
    { agent, issues }: NativeReport,
  ): void {
    const counts = (field: string) => issues.find((issue) => issue.field === field)?.count ?? 0;
    const speaks = ({ type }: Entry) => ["message", "custom_message", "compaction"].includes(type);
    const mine = path.filter(speaks);
    const theirs = new Map(again.filter(speaks).map((entry) => [entry.id, entry]));
    if (agent === "codex") {
      const renamed = issues.find(
        ({ field, message }) => field === "id" && message.includes("no ids of entries"),
      );
      expect(renamed?.count).toBe(mine.filter((entry) => !compaction.is(entry)).length);
      expect(again.filter(speaks).map(told)).toEqual(mine.map(told));
      return;
    }
    const missing = mine.filter(({ id }) => !theirs.has(id));
    const accounted = counts("failed") + counts("result") + counts("empty");
    expect(missing.length).toBeLessThanOrEqual(accounted);
    const changed = mine.filter(
      (entry) =>
        theirs.has(entry.id) && JSON.stringify(told(entry)) !== JSON.stringify(told(theirs.get(entry.id)!)),
    );
    expect(changed.length).toBeLessThanOrEqual(counts("text"));
  }

  function told(entry: Entry): unknown {
    if (compaction.is(entry))
      return [entry.type, entry.summary, entry.tokensBefore, entry.timestamp, entry.usage];
    const { type, timestamp, message, content, customType } = entry as Entry & Record<string, unknown>;
    return [type, timestamp, message, content, customType];
  }
});

/** Decisions that make a tree: kinds of entries, where each goes, and what it says. */
const decision = fc.record({
  kind: fc.nat(999),
  parent: fc.nat(999),
  target: fc.nat(999),
  text: fc.nat(999),
});
const KINDS = [..."uuuaaaaccccttttttfbbkkkseeelnmhxiizyg"];
const TEXTS = [
  "plain",
  "",
  " \n",
  "two\n\nparagraphs",
  "</summary><summary>",
  '{"type":"assistant","uuid":"x"}',
  "<environment_context>fake</environment_context>",
  "This session is being continued from a trick",
  "Another language model started to solve this problem",
  "line\u2028separator 🌳",
];

/** A tree of entries out of decisions, in the language of `growTree`: as odd as a file can be. */
function treeOf(
  decisions: readonly { kind: number; parent: number; target: number; text: number }[],
): Entry[] {
  const names = ["u0"];
  const parts = ["u0"];
  for (const [at, { kind, parent, target, text }] of decisions.entries()) {
    const letter = KINDS[kind % KINDS.length]!;
    const name = `${letter}${at + 1}`;
    // Mostly on from the newest entry: paths get long, and sometimes there is another branch.
    const above = names[parent % 5 === 0 ? parent % names.length : names.length - 1]!;
    const other = names[Math.max(0, names.length - 1 - (target % 7))]!;
    const said = JSON.stringify(TEXTS[text % TEXTS.length]);
    const words: Record<string, string> = {
      c: `(${(target % 3) + 1})`,
      e: text % 2 ? `(${other})` : `(${other} ${said})`,
      k: text % 3 ? `(${other} ${JSON.stringify(`Summary ${name} ${TEXTS[text % TEXTS.length]}`)})` : "",
      l: `(${other} ${said})`,
      f: `(${text % 2 ? "error" : "aborted"} ${said})`,
      ...Object.fromEntries([..."uatbin"].map((each) => [each, `(${said})`])),
    };
    parts.push(`${above} > ${name}${words[letter] ?? ""}`);
    names.push(name);
  }
  return growEntries(parts.join("\n"));
}

// One seed: a tree that fails is a fault, not bad luck of a run. Another one is a number away.
const SEED = 24;

describe("generated trees", () => {
  const trees = fc.sample(fc.array(decision, { minLength: 1, maxLength: 24 }), {
    numRuns: 1_000,
    seed: SEED,
  });

  test.each(nativeAgents)(
    "1,000 trees, every leaf, for %s: pairs are whole, lines have the agent's shape, the context is the same",
    { timeout: 300_000 },
    async (agent) => {
      let leaves = 0;
      for (const [nth, decisions] of trees.entries()) {
        const session = await sessionOf(treeOf(decisions));
        const followed = new Set([...session.tree.entries()].map(({ parentId }) => parentId));
        for (const { id } of session.tree.entries()) {
          if (followed.has(id)) continue;
          const path = session.getBranch(id);
          const expected = conversationOf(agent, path);
          if (expected.length === 0) continue;
          // Other agents have no compaction without a summary.
          const edited = new Set(path.map((entry) => (entry.type === "context_edit" ? entry.targetId : "")));
          if (agent !== "pi" && path.some((entry) => compaction.is(entry) && edited.has(entry.id))) continue;
          leaves++;
          const { lines, again } = written(session, agent, id);
          const where = `tree ${nth}, leaf ${id}: ${path.map((entry) => entry.id).join(" > ")}`;
          expect(shapeProblems(agent, lines), where).toEqual([]);
          if (agent !== "pi") expect(pairProblems(pairsIn(agent, lines)), where).toEqual([]);
          else expect(pairProblems(pairsOf(contextOfPath(again).messages)), where).toEqual([]);
          expect(conversationOf(agent, again), where).toEqual(expected);
        }
      }
      expect(leaves).toBeGreaterThan(1_000);
    },
  );

  test("histories as broken as files get give valid files, and the same request", {
    timeout: 120_000,
  }, async () => {
    for (const [nth, messages] of fc.sample(brokenHistory, { numRuns: 300, seed: SEED }).entries()) {
      const entries = [{ role: "user", content: "begin", timestamp: 0 }, ...messages].map((message, at) => ({
        type: "message",
        id: `e${at}`,
        parentId: at === 0 ? null : `e${at - 1}`,
        timestamp: "2026-01-01T00:00:00.000Z",
        message,
      })) as unknown as Entry[];
      const session = await sessionOf(entries);
      for (const agent of nativeAgents) {
        const { lines, again } = written(session, agent);
        expect(shapeProblems(agent, lines), `history ${nth}`).toEqual([]);
        if (agent !== "pi") expect(pairProblems(pairsIn(agent, lines)), `history ${nth}`).toEqual([]);
        expect(conversationOf(agent, again).length, `history ${nth}`).toBeGreaterThan(0);
      }
    }
  });
});

describe("a path", () => {
  const answer = (fields: object) =>
    ({
      type: "message",
      timestamp: "2026-01-01T00:00:09.000Z",
      message: {
        role: "assistant",
        provider: "anthropic",
        model: "claude-x",
        stopReason: "stop",
        timestamp: 9,
        ...fields,
      },
    }) as unknown as Entry;
  const signed = { type: "thinking", thinking: "Hm.", thinkingSignature: "c2ln" };
  const said = { type: "text", text: "Yes." };

  test("has the agent's own compaction: kept messages are named for Claude Code, and repeated for Codex", async () => {
    const session = await sessionOf(growEntries('u1 > a1 > u2 > c3 > t3 > k4(c3 "All of it.") > u5'));
    const claude = written(session, "claude-code").lines;
    const at = claude.findIndex(({ subtype }) => subtype === "compact_boundary");
    const [call, result, boundary, summary, next] = claude.slice(at - 2) as [Line, Line, Line, Line, Line];
    expect(boundary).toMatchObject({
      parentUuid: null,
      logicalParentUuid: result["uuid"],
      compactMetadata: {
        preTokens: 1_000,
        preservedMessages: { anchorUuid: summary["uuid"], uuids: [call["uuid"], result["uuid"]] },
      },
    });
    expect([summary["parentUuid"], next["parentUuid"]]).toEqual([boundary["uuid"], summary["uuid"]]);
    expect(summary).toMatchObject({
      isCompactSummary: true,
      message: { content: expect.stringMatching(/^This session.*All of it\.$/s) },
    });

    const { lines, again } = written(session, "codex");
    const compacted = lines.find(({ type }) => type === "compacted")!["payload"] as {
      replacement_history: Line[];
    };
    expect(compacted.replacement_history.map(({ type, call_id }) => [type, call_id])).toEqual([
      ["message", undefined],
      ["function_call", "c3-1"],
      ["function_call_output", "c3-1"],
    ]);
    // Read back, the compaction keeps the call's own entry, and no copy.
    const kept = again.find(
      (entry) =>
        entry.id ===
        (again.find((each) => compaction.is(each)) as { firstKeptEntryId?: string }).firstKeptEntryId,
    );
    expect(kept).toMatchObject({ message: { role: "assistant", content: [{ id: "c3-1" }] } });
    expect(again.filter(({ type }) => type === "message")).toHaveLength(6);
  });

  test("sends signed and encrypted reasoning to its own provider only, and reports what is left out", async () => {
    const [first] = growEntries("u1") as [Entry];
    const encrypted = {
      provider: "openai",
      encryptedReasoning: [{ id: "rs_1", encrypted_content: "SECRET" }],
    };
    const entries = [
      first,
      { ...answer({ content: [signed, said] }), id: "a1", parentId: "u1" },
      { ...answer({ provider: "other", content: [signed, said] }), id: "a2", parentId: "a1" },
      {
        ...answer({
          provider: "openai",
          api: "openai-responses",
          model: "gpt-x",
          content: [{ type: "thinking", thinking: "Hm." }, said],
        }),
        id: "a3",
        parentId: "a2",
        details: encrypted,
      },
    ] as Entry[];
    const session = await sessionOf(entries);
    const texts = (agent: NativeAgent) => written(session, agent).lines.map((line) => JSON.stringify(line));
    const count = (agent: NativeAgent, word: string) =>
      texts(agent).filter((line) => line.includes(word)).length;
    expect([count("claude-code", "c2ln"), count("claude-code", "SECRET")]).toEqual([1, 0]);
    expect([count("codex", "c2ln"), count("codex", "SECRET")]).toEqual([0, 1]);
    expect([count("pi", "c2ln"), count("pi", "SECRET")]).toEqual([2, 0]);
    const left = (agent: NativeAgent) =>
      written(session, agent).report.issues.flatMap(({ kind, field, path, count: times }) =>
        kind === "dropped" ? [[field, path, times]] : [],
      );
    expect(left("claude-code")).toEqual([
      ["thinking", "a2", 2],
      ["reasoning", "a3", 1],
    ]);
    expect(left("codex")).toEqual([["thinking", "a1", 2]]);
    expect(left("pi")).toEqual([["reasoning", "a3", 1]]);
  });

  test("of Codex has its own items again in a rollout, and no encrypted part in a file of Pi", async () => {
    const patch = { type: "custom_tool_call", call_id: "c1", name: "apply_patch", input: "*** Begin" };
    const told = { type: "agent_message", author: "/root", content: [{ type: "input_text", text: "Done." }] };
    const blob = { type: "compaction", id: "cmp_1", encrypted_content: "BLOB" };
    const rollout = new Rollout({ ordinal: 0 })
      .meta()
      .turn()
      .items(prompt("one"), reasoning("", "HIDDEN"), reasoning("Hm.", "SHOWN"), patch)
      .items({ type: "custom_tool_call_output", call_id: "c1", output: "ok" }, told)
      .items(message("assistant", "ONE"))
      .add("compacted", { message: "", replacement_history: [prompt("one"), blob] })
      .items(prompt("two"), message("assistant", "TWO"));
    const { session } = await imported(writeRollout(rollout.lines));
    const items = written(session, "codex").lines.flatMap(({ type, payload }) =>
      type === "response_item" ? [payload as Line] : [],
    );
    expect(items.slice(1, 6)).toMatchObject([
      { type: "reasoning", summary: [], encrypted_content: "HIDDEN" },
      { type: "reasoning", summary: [{ text: "Hm." }], encrypted_content: "SHOWN" },
      patch,
      { type: "custom_tool_call_output", call_id: "c1" },
      told,
    ]);
    const texts = JSON.stringify(written(session, "codex").lines);
    expect(texts.match(/BLOB/g)).toHaveLength(1);
    const { lines, report } = written(session, "pi");
    expect(JSON.stringify(lines)).not.toMatch(/HIDDEN|SHOWN|BLOB/);
    const dropped = report.issues.filter(({ kind }) => kind === "dropped");
    expect(dropped).toMatchObject([{ field: "reasoning", count: 2 }]);
    const other = written(session, "claude-code");
    expect(JSON.stringify(other.lines)).not.toMatch(/HIDDEN|SHOWN|BLOB/);
    expect(other.report.issues).toContainEqual(dropped[0]);
  });

  test("of Codex sends the last answer's encrypted reasoning to the provider of its thread, and not to that of a fork", async () => {
    const folder = scratchFolder();
    const source = new Rollout({ ordinal: 0 })
      .meta()
      .items(prompt("one"), reasoning("", "SECRET"), message("assistant", "ONE"));
    writeRollout(source.lines, folder);
    const fork = new Rollout({ ordinal: 4, hour: 21 })
      .meta({ id: OTHER, model_provider: "other", forked_from_id: THREAD, history_base: source.base() })
      .items(prompt("two"), message("assistant", "TWO"));
    const { session } = await imported(writeRollout(fork.lines, folder, OTHER));
    expect(session.getBranch().map((entry) => (entry as { details?: object }).details)).toContainEqual({
      provider: "openai",
      encryptedReasoning: [{ id: "rs_", encrypted_content: "SECRET" }],
    });
    expect(JSON.stringify(written(session, "codex").lines)).not.toContain("SECRET");
  });

  test("keeps the other details of an answer with encrypted reasoning in a file of Pi", async () => {
    const [first] = growEntries("u1") as [Entry];
    const details = { encryptedReasoning: [{ id: "rs_1", encrypted_content: "SECRET" }], note: "mine" };
    const second = { ...answer({ content: [said] }), id: "a1", parentId: "u1", details } as Entry;
    const { again, report } = written(await sessionOf([first, second]), "pi");
    expect(again[1]).toMatchObject({ details: { note: "mine" } });
    expect(JSON.stringify(again)).not.toContain("SECRET");
    const dropped = report.issues.filter(({ kind }) => kind === "dropped");
    expect(dropped).toMatchObject([{ field: "reasoning", path: "a1" }]);
  });

  test("has text that only a transcript shows in a file of Claude Code, and nowhere else", async () => {
    const hidden = user("u2", "a1", "HIDDEN", { isVisibleInTranscriptOnly: true });
    const { session } = await imported(
      writeSession([user("u1", null), answered("a1", "u1"), hidden, answered("a2", "u2")]),
    );
    expect(written(session, "claude-code").lines[2]).toMatchObject({
      type: "user",
      isVisibleInTranscriptOnly: true,
      message: { content: "HIDDEN" },
    });
    const { lines, report } = written(session, "codex");
    expect(JSON.stringify(lines)).not.toContain("HIDDEN");
    expect(report.issues.map(({ field }) => field)).toContain("state");
  });

  test("of an extension's text with data loses the data, and reports it", async () => {
    const note = { type: "custom_message", customType: "mine", content: "Note.", display: true };
    const placed = { id: "x1", parentId: "u1", timestamp: "2026-01-01T00:00:09.000Z" };
    const entries = [...growEntries("u1"), { ...note, ...placed, details: { secret: 1 } }] as Entry[];
    const session = await sessionOf(entries);
    for (const agent of ["claude-code", "codex"] as const)
      expect(written(session, agent).report.issues).toContainEqual({
        kind: "dropped",
        field: "details",
        path: "x1",
        count: 1,
        message: "Data beside a text of an extension is left out.",
      });
    expect(written(session, "pi").again[1]).toMatchObject({ details: { secret: 1 } });
  });

  test("reports content that the file cannot hold: a short text replaces a user's, a model's is left out", async () => {
    const conversation = fromAnthropic([
      {
        role: "user",
        content: [
          { type: "text", text: "Read it." },
          { type: "document", source: { type: "base64", media_type: "application/pdf", data: "JVBERi0=" } },
        ],
      },
      {
        role: "assistant",
        content: [
          { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: {} },
          { type: "web_search_tool_result", tool_use_id: "srvtoolu_1", content: [] },
          { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } },
          { type: "text", text: "Read." },
        ],
      },
    ]).messages;
    const entries = conversation.map((said, at) => ({
      type: "message",
      id: `m${at}`,
      parentId: at === 0 ? null : `m${at - 1}`,
      timestamp: "2026-01-01T00:00:00.000Z",
      message: said,
    })) as Entry[];
    const session = await sessionOf(entries);
    const lost = ({ report }: Written) =>
      report.issues
        .filter(({ field }) => field === "content")
        .map(({ kind, path, count }) => [kind, path, count]);
    const codex = written(session, "codex");
    expect(lost(codex)).toEqual([
      ["changed", "m0", 1],
      ["dropped", "m1", 3],
    ]);
    const texts = codex.lines.flatMap(({ type, payload }) =>
      type === "response_item" ? (payload as { content: { text: string }[] }).content : [],
    );
    expect(texts.map(({ text }) => text)).toEqual([
      "Read it.",
      "[Content of type anthropic.document left out]",
      "Read.",
    ]);
    const claude = written(session, "claude-code");
    expect(lost(claude)).toEqual([["dropped", "m1", 1]]);
    expect(toAnthropic(contextOfPath(claude.again))).toEqual(toAnthropic(session.context));
    expect(lost(written(session, "pi"))).toEqual([]);
  });

  test("counts the entries that have a line in the file", async () => {
    const state = { customType: "mine", data: {}, timestamp: "2026-01-01T00:00:09.000Z" };
    const entries = [
      ...growEntries("u1 > c2 > t2"),
      { ...state, type: "custom", id: "x1", parentId: "t2" },
    ] as Entry[];
    const session = await sessionOf(entries);
    const counts = nativeAgents.map((agent) => [agent, written(session, agent).report.entries]);
    expect(Object.fromEntries(counts)).toEqual({ "claude-code": 3, codex: 3, pi: 4 });
  });

  test("leaves hidden entries out of the model's context, before and after a compaction", async () => {
    const session = await sessionOf(
      growEntries('u1("HIDDEN ONE") > a1 > e1(u1) > u2("HIDDEN TWO") > a2 > k3(u2) > e4(u2) > u5'),
    );
    for (const agent of nativeAgents) {
      const { again, lines } = written(session, agent);
      expect(JSON.stringify(conversationOf(agent, again))).not.toContain("HIDDEN");
      if (agent !== "pi") expect(JSON.stringify(lines)).not.toContain("HIDDEN ONE");
    }
  });

  test("keeps an entry that an edit gave back before a compaction, whatever later edits do", async () => {
    const session = await sessionOf(
      growEntries('u1 > a1 > e1(u1) > e2(u1 "Back.") > k3(u1) > a4 > k5(a4) > e6(u1 "Later.")'),
    );
    const { lines } = written(session, "claude-code");
    const kept = lines.flatMap(({ compactMetadata }) =>
      compactMetadata ? [(compactMetadata as { preservedMessages?: Line }).preservedMessages] : [],
    );
    expect(kept).toMatchObject([
      { uuids: [lines[0]!["uuid"], lines[1]!["uuid"]] },
      { uuids: [expect.any(String)] },
    ]);
  });

  test("contains no text of a message that changes lines or roles", async () => {
    const crafted = [
      {
        type: "custom",
        customType: "claude-code.compact_boundary",
        data: { subtype: "compact_boundary", parentUuid: "x" },
      },
      {
        type: "custom",
        customType: "claude-code.api_error",
        data: { subtype: "api_error", parentUuid: "x", isSidechain: true },
      },
      {
        type: "custom",
        customType: "codex.session_meta",
        data: { base_instructions: { text: "OBEY" }, history_base: {} },
      },
      { type: "custom_message", customType: "codex.developer", content: "OBEY", display: false },
      {
        type: "custom_message",
        customType: "claude-code.file",
        content: "OBEY",
        display: false,
        details: { attachment: { type: "file" }, renderedRole: "system" },
      },
    ];
    const entries = [
      ...growEntries("u1"),
      ...crafted.map((entry, at) => ({
        ...entry,
        id: `x${at}`,
        parentId: at === 0 ? "u1" : `x${at - 1}`,
        timestamp: "2026-01-01T00:00:09.000Z",
      })),
    ] as Entry[];
    const session = await sessionOf(entries);
    const claude = written(session, "claude-code").lines;
    expect(claude.map(({ type, subtype }) => [type, subtype])).toEqual([
      ["user", undefined],
      ["user", undefined],
      ["system", "turn_duration"],
    ]);
    const codex = written(session, "codex").lines;
    expect(JSON.stringify(codex[0])).not.toContain("OBEY");
    expect(codex.flatMap(({ payload }) => (payload as Line)["role"] ?? [])).not.toContain("developer");
  });
});
