// Extensions in the shape of those of the Pi agent: what they register, ask and append.
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type CreateOptions, createSession, defineExtension, type Extension } from "@espalier/engine";
import type { ExtensionReport } from "@espalier/extensions";
import { custom, type Entry, isCustom, messageText } from "@espalier/session-tree";
import { scriptedSummarizer } from "@espalier/summarizer/testing";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { plant, soundAnswer, TURN_TOKENS, turn } from "./build-session.ts";

let root = "";
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "espalier-pi-"));
});
afterEach(() => rmSync(root, { recursive: true }));

const PI = "@earendil-works/pi-coding-agent";

/** A session with some turns and an extension file of Pi's shape, whose default export has this body. */
async function planted(
  body: string,
  { imports = "", ...options }: CreateOptions & { imports?: string } = {},
) {
  const file = join(root, "extension.ts");
  writeFileSync(
    file,
    `import type { ExtensionAPI } from "${PI}";\n${imports}\nexport default function (pi: ExtensionAPI) {\n${body}\n}\n`,
  );
  const reports: ExtensionReport[] = [];
  const said: string[] = [];
  const session = await createSession({
    home: root,
    cwd: root,
    extensions: [file],
    compaction: { keepRecentTokens: TURN_TOKENS },
    onReport: (report) => reports.push(report),
    ui: { notify: (message) => said.push(message) },
    summarizer: scriptedSummarizer(soundAnswer),
    ...options,
  });
  for (const name of ["1", "2", "3"]) await session.appendMessages(turn(name));
  return { session, reports, said, file };
}

describe("members of Pi's API", () => {
  test("append, label and name can be called without `await`; the command waits for them", async () => {
    const { session, said } = await planted(`
      pi.registerCommand("mark", {
        description: "Mark the last answer",
        handler: async (args, ctx) => {
          const entries = ctx.sessionManager.getEntries();
          const last = entries.findLast((entry) => entry.type === "message" && entry.message.role === "assistant");
          pi.setLabel(last.id, args);
          pi.setSessionName("Marked");
          pi.appendEntry("marks", { id: last.id });
          ctx.ui.notify("Marked as " + args + " in " + (ctx.sessionManager.getSessionName() ?? "no name"));
        },
      });
      pi.registerCommand("who", { handler: (_args, ctx) => ctx.ui.notify(pi.getSessionName() + " " + pi.getCommands().map(({ name }) => name)) });`);
    const answer = session.leafId!;
    expect(session.commands.map(({ name, description }) => [name, description])).toEqual([
      ["mark", "Mark the last answer"],
      ["who", ""],
    ]);
    await session.runCommand("mark", "done");
    expect(session.getLabel(answer)).toBe("done");
    expect(session.name).toBe("Marked");
    const entry = session.getEntries().find((one) => isCustom(one, "marks"));
    expect(entry && custom.is(entry) && entry.data).toEqual({ id: answer });
    await session.runCommand("who");
    expect(said).toEqual(["Marked as done in no name", "Marked mark,who"]);
    await expect(session.runCommand("nobody")).rejects.toMatchObject({ code: "unknown-command" });
    await session.close();
  });

  test("of a command move the leaf and fork, report a veto, and wait for the appends of the extension", async () => {
    const { session, said } = await planted(`
      let isVetoed = false;
      for (const hook of ["session_before_tree", "session_before_fork"])
        pi.on(hook, () => (isVetoed ? { cancel: true } : undefined));
      pi.registerCommand("move", { handler: async (args, ctx) => {
        isVetoed = args === "veto";
        const [, answer] = ctx.sessionManager.getBranch();
        const { cancelled: isStopped } = await ctx.navigateTree(answer.id, { label: "here" });
        const { cancelled } = await ctx.fork(answer.id);
        pi.setThinkingLevel("high");
        await ctx.waitForIdle();
        ctx.ui.notify(JSON.stringify([isStopped, cancelled, pi.getThinkingLevel(), ctx.thinkingLevel]));
      } });`);
    const [, answer] = session.getBranch();
    await session.runCommand("move", "veto");
    expect(session.leafId).not.toBe(answer!.id);
    await session.runCommand("move");
    expect(said.map((line) => JSON.parse(line))).toEqual([
      [true, true, "high", "high"],
      [false, false, "high", "high"],
    ]);
    expect(session.getBranch().map(({ type }) => type)).toEqual([
      "message",
      "message",
      "thinking_level_change",
    ]);
    expect(session.getLabel(answer!.id)).toBe("here");
    await session.close();
  });

  test("run programs in the session's folder, and communicate on a bus", async () => {
    execFileSync("git", ["init", "-q", root]);
    const { session, said } = await planted(`
      pi.events.on("told", (data) => { pi.appendEntry("told", data); });
      pi.on("session_shutdown", async (_event, ctx) => {
        const { stdout, code, killed } = await pi.exec("git", ["rev-parse", "--show-toplevel"]);
        const missing = await pi.exec("no-such-program", []);
        const slow = await pi.exec("sleep", ["5"], { timeout: 50 });
        ctx.ui.notify(JSON.stringify([stdout.trim(), code, killed, missing.code, slow.killed]));
        const refused = [await pi.exec(""), await pi.exec("git", ["\\0"]), await pi.exec("git", [], { timeout: -1 })];
        ctx.ui.notify(JSON.stringify(refused.map(({ code, stderr }) => [code, stderr !== ""])));
        pi.events.emit("told", { by: "bus" });
      });`);
    await session.close();
    expect(JSON.parse(said[0]!)).toEqual([root, 0, false, 1, true]);
    expect(JSON.parse(said[1]!)).toEqual(Array(3).fill([1, true]));
    expect(readFileSync(session.file, "utf8")).toContain('"customType":"told","data":{"by":"bus"}');
  });

  test("that are missing are reported by name, and code that only registers them continues", async () => {
    const { session, reports, file } = await planted(`
      pi.registerTool({ name: "hello" });
      pi.registerFlag("plan", { type: "boolean", default: false });
      pi.registerCommand("ask", { handler: () => pi.sendUserMessage("Hello " + pi.getFlag("plan")) });
      pi.registerCommand("draw", { handler: (_args, ctx) => ctx.ui.custom(() => {}) });
      pi.on("session_tree", (_event, ctx) => { ctx.reload(); });`);
    expect(reports.map(({ kind, message }) => [kind, message])).toEqual([
      [
        "missing-member",
        `${file} uses pi.registerTool, which is not available here; the extension continues without it.`,
      ],
      [
        "missing-member",
        `${file} uses pi.registerFlag("plan"), which is not available here; the extension continues without it.`,
      ],
    ]);
    for (const [command, member] of [
      ["ask", "pi.sendUserMessage"],
      ["draw", "ctx.ui.custom"],
    ]) {
      await expect(session.runCommand(command!)).rejects.toMatchObject({
        code: "command-failed",
        by: file,
        message: expect.stringContaining(`${member} is not available here`),
      });
    }
    await session.navigate(session.getBranch()[3]!.id);
    expect(reports[2]).toMatchObject({
      kind: "threw",
      message: expect.stringContaining("ctx.reload is not"),
    });
    await session.close();
  });
});

describe("Pi's packages", () => {
  test("provide types, defineTool and conversations; a missing member is reported when it is used", async () => {
    const { session, said } = await planted(
      `
      const tool = defineTool({ name: "t", parameters: Type.Object({ a: Type.String(), b: Type.Optional(StringEnum(["x"])) }) });
      class Editor extends CustomEditor {}
      pi.registerCommand("schema", { handler: (_args, ctx) => ctx.ui.notify(JSON.stringify(tool.parameters)) });
      pi.registerCommand("text", {
        handler: (_args, ctx) => {
          const messages = ctx.sessionManager.getBranch().map((entry) => entry.message);
          ctx.ui.notify(serializeConversation(convertToLlm(messages)).slice(0, 60));
        },
      });
      pi.registerCommand("editor", { handler: () => new Editor() });`,
      {
        imports: `import { convertToLlm, CustomEditor, defineTool, serializeConversation } from "${PI}";
import { StringEnum } from "@mariozechner/pi-ai";
import { Type } from "typebox";`,
      },
    );
    await session.runCommand("schema");
    // No schema is read here, since tools cannot be registered.
    expect(said[0]).toBe("{}");
    await session.runCommand("text");
    expect(said[1]).toContain("Question 1.");
    await expect(session.runCommand("editor")).rejects.toMatchObject({
      message: expect.stringContaining("CustomEditor of pi-coding-agent is not available here"),
    });
    await session.close();
  });
});

describe("a guard", () => {
  test("that uses a missing member cancels, with a sentence that names it", async () => {
    const guard = `
      const refuse = async (_event, ctx) => { await ctx.ui.custom(() => {}); };
      pi.on("session_before_tree", refuse);
      pi.on("session_before_fork", refuse);
      pi.on("session_before_compact", refuse);`;
    const { session, file } = await planted(guard);
    const [entry] = session.getBranch();
    for (const act of [
      () => session.navigate(entry!.id),
      () => session.fork(entry!.id),
      () => session.compact(),
    ]) {
      const before = session.leafId;
      await expect(act()).rejects.toMatchObject({
        code: "cancelled",
        by: file,
        reason: expect.stringContaining("ctx.ui.custom is not available here"),
      });
      expect(session.leafId).toBe(before);
    }
    await session.close();
  });

  test("that throws for another reason is reported and skipped; one that returns early without a dialog permits", async () => {
    const { session, reports } = await planted(`
      pi.on("session_before_fork", () => { throw new Error("no disk"); });
      pi.on("session_before_fork", (_event, ctx) => { if (!ctx.hasUI) return; return { cancel: true }; });`);
    await session.fork(session.getBranch()[3]!.id);
    expect(reports).toMatchObject([{ kind: "threw" }]);
    await session.close();
  });

  test("that needs a dialog gets no answer where none can be shown", async () => {
    const { session } = await planted(`
      pi.on("session_before_fork", async (_event, ctx) => {
        const answers = [await ctx.ui.confirm("Sure?", ""), await ctx.ui.select("Which?", ["a"]), await ctx.ui.input("What?")];
        return { cancel: true, reason: JSON.stringify([ctx.hasUI, ctx.mode, ...answers.map((one) => one ?? null)]) };
      });`);
    await expect(session.fork(session.leafId!)).rejects.toMatchObject({
      reason: '[false,"print",false,null,null]',
    });
    await session.close();
  });

  test("uses the shell's dialogs, one after the other, and an abort or the time limit closes one", async () => {
    const asked: string[] = [];
    const closing = <Answer>(title: string, without: Answer, signal?: AbortSignal) =>
      new Promise<Answer>((resolve) => {
        asked.push(title);
        signal?.addEventListener("abort", () => resolve(without));
      });
    const { session } = await planted(
      `
      pi.on("session_before_fork", async ({ entryId, position }, ctx) => {
        const [sure, which] = await Promise.all([
          ctx.ui.confirm("Sure?", "", { timeout: 20 }),
          ctx.ui.select("Which?", ["a", "b"]),
        ]);
        return { cancel: true, reason: [ctx.hasUI, sure, which, position].join(" ") };
      });`,
      {
        ui: {
          notify() {},
          dialogs: {
            confirm: (title, _message, { signal } = {}) => closing(title, false, signal),
            select: async (title, choices) => {
              asked.push(title);
              return choices[1];
            },
            input: async () => undefined,
          },
        },
      },
    );
    await expect(session.fork(session.leafId!)).rejects.toMatchObject({ reason: "true false b at" });
    expect(asked).toEqual(["Sure?", "Which?"]);
    await session.close();
  });
});

describe("navigation and forks", () => {
  const HANDLERS = `
      pi.on("session_before_fork", (event) => { pi.appendEntry("asked", ["fork", event.kind, event.entryId, event.position]); });
      pi.on("session_before_tree", ({ preparation }) => { pi.appendEntry("asked", ["tree", preparation.kind]); });`;
  const askedIn = (entries: readonly Entry[]) =>
    entries.flatMap((entry) => (isCustom(entry, "asked") && custom.is(entry) ? [entry.data] : []));

  test("an extension of Pi's shape is called for navigation by session_before_tree alone", async () => {
    const { session } = await planted(HANDLERS);
    const entry = session.getBranch()[3]!;
    await session.fork(entry.id);
    await session.navigate(entry.id);
    await session.close();
    expect(askedIn(session.getEntries())).toEqual([
      ["fork", "fork", entry.id, "at"],
      ["tree", "navigate"],
    ]);
  });

  test("an extension for Espalier is called by session_before_fork for both, with entryId and position", async () => {
    const shown: unknown[] = [];
    const ours = defineExtension("ours", (api) => {
      api.on(
        "session_before_fork",
        ({ kind, entryId, position }) => void shown.push([kind, entryId, position]),
      );
    });
    const { session } = await plant({ extensions: [ours] });
    const path = session.getBranch();
    await session.fork(path[3]!.id, { position: "before" });
    await session.navigate(path[3]!.id);
    await session.navigate(path[4]!.id);
    await session.navigate(null);
    expect(shown).toEqual([
      ["fork", path[3]!.id, "before"],
      ["navigate", path[3]!.id, "at"],
      // A question is written anew: the leaf comes to be before it.
      ["navigate", path[4]!.id, "before"],
      ["navigate", path[0]!.id, "before"],
    ]);
  });

  test("session_before_tree has the requested summary options, and session_tree has its entry", async () => {
    const told: unknown[] = [];
    const pi: Extension = (api) => {
      api.on("session_before_tree", ({ preparation }) => {
        const { customInstructions, replaceInstructions, label, userWantsSummary } = preparation;
        told.push({ customInstructions, replaceInstructions, label, userWantsSummary });
      });
      api.on(
        "session_tree",
        ({ summaryEntry, newLeafId }) => void told.push([summaryEntry?.id === newLeafId]),
      );
    };
    const summarizer = scriptedSummarizer(soundAnswer);
    const { session } = await plant({ extensions: [pi], summarizer });
    const instructions = "Only the ids.";
    const to = session.getBranch()[3]!.id;
    await session.navigate(to, { summarize: true, instructions, replaceInstructions: true, label: "here" });
    await session.navigate(to);
    expect(told).toEqual([
      { customInstructions: instructions, replaceInstructions: true, label: "here", userWantsSummary: true },
      [true],
      {
        customInstructions: undefined,
        replaceInstructions: false,
        label: undefined,
        userWantsSummary: false,
      },
      [false],
    ]);
    expect(summarizer.requests[0]).toMatchObject({ instructions });
  });
});

test("a context handler that removes messages keeps the system prompt and the tools", async () => {
  const { session } = await planted(
    'pi.on("context", ({ messages }) => ({ messages: messages.slice(-2) }));',
  );
  await session.appendMessages([{ role: "system", content: "Use the new tool.", toolsAdded: [] }] as never);
  await session.appendMessages(turn("4", { calls: 0 }));
  const sent = await session.contextToSend();
  expect(sent.messages.map(({ role }) => role)).toEqual(["system", "user", "assistant"]);
  expect(messageText(sent.messages[0]!)).toBe("Use the new tool.");
  await session.close();
});

test("a failed compaction is reported with reason and extension, in Pi's terms", async () => {
  const failing = scriptedSummarizer(() => {
    throw new Error("no network");
  });
  const { session, said } = await planted(
    `pi.on("session_compact_failed", ({ aborted, errorMessage, fromExtension }, ctx) =>
       ctx.ui.notify(JSON.stringify([aborted, typeof errorMessage, fromExtension])));`,
    { summarizer: failing, fallback: false },
  );
  await expect(session.compact()).rejects.toThrow();
  expect(said).toEqual(['[false,"string",false]']);
  await session.close();
});

describe("compaction", () => {
  test("is started by a handler that does not wait for it, and its end is reported", async () => {
    const { session, said } = await planted(`
      pi.registerCommand("shrink", {
        handler: (args, ctx) => {
          const { tokens, contextWindow, percent } = ctx.getContextUsage();
          ctx.ui.notify([tokens > 0, contextWindow, percent < 1].join(" "));
          ctx.compact({
            customInstructions: args,
            onComplete: () => ctx.ui.notify("done"),
            onError: (error) => ctx.ui.notify("failed: " + error.message),
          });
        },
      });`);
    await session.runCommand("shrink", "the ids");
    expect(said).toEqual(["true 200000 true", "done"]);
    await session.runCommand("shrink");
    expect(said[3]).toMatch(/^failed: Nothing to compact/);
    await session.close();
  });

  test("is summarized with a model that the program provides, or as by default when there is none", async () => {
    const body = `
      pi.on("session_before_compact", async ({ preparation, signal }, ctx) => {
        const model = ctx.modelRegistry.find("test", "flash");
        if (!model) return ctx.ui.notify("no model, using default compaction");
        const text = serializeConversation(convertToLlm([...preparation.messagesToSummarize, ...preparation.turnPrefixMessages]));
        const { content } = await ctx.modelRegistry.complete(model, { messages: [{ role: "user", content: text, timestamp: 0 }] }, { signal });
        return { compaction: { summary: content[0].text, firstKeptEntryId: preparation.firstKeptEntryId, tokensBefore: preparation.tokensBefore } };
      });`;
    const imports = `import { convertToLlm, serializeConversation } from "${PI}";`;
    const models = {
      find: (provider: string, id: string) => (provider === "test" ? { provider, id } : undefined),
      complete: async (_: unknown, { messages }: { messages: readonly unknown[] }) => ({
        content: [{ type: "text", text: `Told of ${JSON.stringify(messages).includes("Question 1.")}.` }],
      }),
    };
    const own = await planted(body, { imports, models });
    expect(await own.session.compact()).toMatchObject({ source: "extension", summary: "Told of true." });
    await own.session.close();
    const without = await planted(body, { imports });
    expect(await without.session.compact()).toMatchObject({
      source: expect.not.stringContaining("extension"),
    });
    expect(without.said).toEqual(["no model, using default compaction"]);
    await without.session.close();
    expect(existsSync(without.session.file)).toBe(true);
  });
});
