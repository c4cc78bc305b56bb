import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bytesView, EspalierError } from "@espalier/jsonl-stream";
import {
  buildRequest,
  buildSessionContext,
  contextOfPath,
  memoryLog,
  memoryStore,
  pathOf,
  readPathWindow,
  referenceIssues,
  type SessionContext,
  SessionTree,
  Tree,
} from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { chatProblems, checkAnthropicRequest, responsesProblems } from "@espalier/session-tree/testing";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { OperatedSession } from "./operated-session.ts";
import { readAsPi } from "./pi-rules.ts";
import { type Operation, operations } from "./random-operations.ts";
import { requestFormats } from "./request-histories.ts";

const RUNS = { numRuns: Number(process.env["FUZZ"] ?? 150) };

/** A session in memory after operations, with its bytes. */
async function operated(does: readonly Operation[], writers = 1) {
  const session = await OperatedSession.create(memoryStore(), writers);
  for (const [at, operation] of does.entries()) await session.carryOut(operation, at % writers);
  expect(session.objections).toEqual([]);
  return { ...session, moments: session.moments, bytes: await session.bytes(), session: session.session };
}

/** Where each line of a log ends. */
function boundaries(bytes: Uint8Array): number[] {
  return [...bytes.entries()].flatMap(([at, byte]) => (byte === 10 ? [at + 1] : []));
}

const asPiSays = ({
  messages,
  model,
  thinkingLevel,
}: Pick<SessionContext, "messages" | "model" | "thinkingLevel">) =>
  JSON.parse(JSON.stringify({ messages, model, thinkingLevel }));

describe("every operation on a session", () => {
  test("leaves existing bytes of its log unchanged (T1)", async () => {
    await fc.assert(
      fc.asyncProperty(operations(12), fc.integer({ min: 1, max: 3 }), async (does, writers) => {
        const session = await OperatedSession.create(memoryStore(), writers);
        let before = await session.bytes();
        for (const [at, operation] of does.entries()) {
          await session.carryOut(operation, at);
          const after = await session.bytes();
          expect(Buffer.from(after.subarray(0, before.length)).equals(before)).toBe(true);
          before = after;
        }
      }),
      RUNS,
    );
  });

  test("leaves existing bytes of its file unchanged (T1)", async () => {
    await fc.assert(
      fc.asyncProperty(operations(8), async (does) => {
        const home = mkdtempSync(join(tmpdir(), "espalier-"));
        try {
          const session = await OperatedSession.create(fileStore({ home }), 2);
          let before = await session.bytes();
          for (const [at, operation] of does.entries()) {
            await session.carryOut(operation, at);
            const after = await session.bytes();
            expect(Buffer.from(after.subarray(0, before.length)).equals(before)).toBe(true);
            before = after;
          }
          expect(session.objections).toEqual([]);
          expect(new Tree(bytesView(before)).issues).toEqual([]);
        } finally {
          rmSync(home, { recursive: true });
        }
      }),
      { numRuns: RUNS.numRuns / 5 },
    );
  });

  test("writes only valid entries whose parent is in the log (T2, T3)", async () => {
    await fc.assert(
      fc.asyncProperty(operations(12), fc.integer({ min: 1, max: 2 }), async (does, writers) => {
        const { bytes } = await operated(does, writers);
        for (const end of boundaries(bytes)) {
          const tree = new Tree(bytesView(bytes.subarray(0, end)));
          expect(tree.issues).toEqual([]);
          expect(referenceIssues(tree)).toEqual([]);
          expect(tree.length).toBe(boundaries(bytes.subarray(0, end)).length - 1);
        }
        const tree = new Tree(bytesView(bytes));
        expect(new Set(tree.ids()).size).toBe(tree.length);
      }),
      RUNS,
    );
  });

  test("never changes a path, whose context depends on nothing else (T4, T6)", async () => {
    await fc.assert(
      fc.asyncProperty(operations(12), async (does) => {
        const session = await OperatedSession.create(memoryStore(), 1);
        const paths = new Map<string, string>();
        const contexts = new Map<string, string>();
        for (const operation of does) {
          await session.carryOut(operation);
          const { tree } = session.session;
          for (const id of tree.ids()) {
            if (paths.has(id)) continue;
            paths.set(id, JSON.stringify(pathOf(tree, id)));
            contexts.set(id, JSON.stringify(session.session.contextAt(id)));
          }
        }
        const { tree } = session.session;
        for (const [id, path] of paths) expect(JSON.stringify(pathOf(tree, id))).toBe(path);
        for (const [id, context] of contexts)
          expect(JSON.stringify(session.session.contextAt(id))).toBe(context);
      }),
      RUNS,
    );
  });

  test("leaves a log that reopens at the same leaf, from every line on (T5)", async () => {
    await fc.assert(
      fc.asyncProperty(operations(12), fc.integer({ min: 1, max: 2 }), async (does, writers) => {
        const { bytes, moments } = await operated(does, writers);
        for (const end of boundaries(bytes)) {
          const prefix = bytes.subarray(0, end);
          const reopened = await SessionTree.open(memoryLog(prefix));
          const { leafId, context } = reopened;
          // With several writers the leaf is that of the one who wrote last.
          const live = moments.findLast(({ size, wrote }) => size === end && wrote);
          if (live) expect({ leafId, context }).toEqual({ leafId: live.leafId, context: live.context });
          expect(buildSessionContext(reopened.tree)).toEqual(context);
          expect(buildSessionContext([...reopened.tree.entries()])).toEqual(context);
          if (leafId !== null) expect(contextOfPath(pathOf(reopened.tree, leafId))).toEqual(context);
        }
      }),
      RUNS,
    );
  });

  test("gives another reader of the format the same leaf and the same text (T5)", async () => {
    await fc.assert(
      fc.asyncProperty(operations(12), async (does) => {
        const { bytes } = await operated(does);
        for (const end of boundaries(bytes)) {
          const prefix = bytes.subarray(0, end);
          const theirs = readAsPi(Buffer.from(prefix).toString("utf8"));
          const ours = buildSessionContext(new Tree(bytesView(prefix)));
          expect(asPiSays(ours)).toEqual(asPiSays(theirs as never));
        }
      }),
      RUNS,
    );
  });

  test("gives the same path when read backwards and from the index (T6)", async () => {
    await fc.assert(
      fc.asyncProperty(operations(12), async (does) => {
        const { bytes, session } = await operated(does);
        const view = bytesView(bytes);
        for (const id of session.tree.ids()) {
          const { entries, before } = readPathWindow(view, id);
          expect(contextOfPath(entries, before)).toEqual(session.contextAt(id));
          const theirs = readAsPi(Buffer.from(bytes).toString("utf8"), id);
          expect(asPiSays(session.contextAt(id))).toEqual(asPiSays(theirs as never));
        }
      }),
      RUNS,
    );
  });

  test("leaves paths with valid requests for every provider (T7)", async () => {
    const problemsOf = {
      anthropic: (request: unknown) => checkAnthropicRequest(request, { strict: true }),
      openai: chatProblems,
      "openai-responses": responsesProblems,
    };
    await fc.assert(
      fc.asyncProperty(operations(12), async (does) => {
        const { session } = await operated(does);
        for (const id of session.tree.ids()) {
          for (const [name, problems] of Object.entries(problemsOf)) {
            const format = requestFormats[name as keyof typeof problemsOf];
            try {
              expect(problems(buildRequest<object>(session.contextAt(id), { format }))).toEqual([]);
            } catch (error) {
              expect(error).toBeInstanceOf(EspalierError);
              expect(error).toMatchObject({ code: "empty-context" });
            }
          }
        }
      }),
      RUNS,
    );
  });

  test("writes only well-formed Unicode, and memory equals the log (T13)", async () => {
    await fc.assert(
      fc.asyncProperty(operations(12), async (does) => {
        const { bytes, session } = await operated(does);
        const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
        expect(text.isWellFormed()).toBe(true);
        for (const line of text.trimEnd().split("\n"))
          expect(JSON.stringify(JSON.parse(line)).replaceAll("\\\\", "")).not.toMatch(/\\ud[89a-f]/);
        const fresh = new Tree(bytesView(bytes));
        expect([...session.tree.entries()]).toEqual([...fresh.entries()]);
        expect(session.getBranch()).toEqual(session.leafId === null ? [] : pathOf(fresh, session.leafId));
      }),
      RUNS,
    );
  });
});
